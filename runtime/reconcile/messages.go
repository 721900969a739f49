package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Check refuses messages that a request may not have, whatever its thread has.
func Check(msgs []agui.Message) error {
	for i := range msgs {
		m := &msgs[i]
		switch {
		case m.ID != "" && !data.ValidName(m.ID):
			return data.RefuseAt(fmt.Sprintf("/messages/%d/id", i), "invalid_name", "A message id must be 1 to 200 characters without control characters")
		case m.ToolCallID != "" && !data.ValidName(m.ToolCallID):
			return data.RefuseAt(fmt.Sprintf("/messages/%d/toolCallId", i), "invalid_name", "A toolCallId must be 1 to 200 characters without control characters")
		}
		switch m.Role {
		case agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity:
		default:
			return data.RefuseAt(fmt.Sprintf("/messages/%d/role", i), "invalid_message", "A message has the unknown role %q", m.Role)
		}
		if err := checkForm(i, m); err != nil {
			return err
		}
	}
	return nil
}

// foreign are members of messages of other APIs, and what AG-UI has in their place. Unlike other unknown members they are refused,
// because the message is wrong without them.
var foreign = map[string]string{
	"parts": "content", "tool_calls": "toolCalls", "tool_call_id": "toolCallId", "function_call": "toolCalls",
}

// checkForm refuses a message in the form of another API.
func checkForm(i int, m *agui.Message) error {
	if m.Extra != nil {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(m.Extra, &members) // it was decoded from JSON
		for _, name := range slices.Sorted(maps.Keys(foreign)) {
			if raw, ok := members[name]; !ok || string(raw) == "null" || name == "parts" && hasContent(m) {
				continue
			}
			return data.RefuseAt(fmt.Sprintf("/messages/%d/%s", i, name), "invalid_message", "A message has no member %s in AG-UI; use %s", name, foreign[name])
		}
	}
	if j := m.UnknownPart(); j >= 0 {
		return data.RefuseAt(fmt.Sprintf("/messages/%d/content/%d/type", i, j), "invalid_message",
			"The type of a part of content must be text, image, audio, video or document")
	}
	return nil
}

// checkContent refuses a new message without content or attachments: of a person or a client always, else if it has unknown members, which may be
// its content in another API's form.
func checkContent(i int, m *agui.Message) error {
	if hasContent(m) || m.Role == agui.RoleActivity || len(m.ToolCalls) > 0 || m.EncryptedValue != "" {
		return nil
	}
	agents := m.Role == agui.RoleAssistant || m.Role == agui.RoleReasoning || m.Role == agui.RoleTool
	if agents && m.Extra == nil {
		return nil
	}
	return data.RefuseAt(fmt.Sprintf("/messages/%d/content", i), "invalid_content", "Message content must not be empty")
}

func hasContent(m *agui.Message) bool {
	return strings.TrimSpace(m.Content) != "" || m.Parts != nil && string(m.Parts) != "[]"
}

// checkAttachments counts the attachment references in the request's message at that index, and refuses malformed ones.
func checkAttachments(index int, m *agui.Message) (int, error) {
	var metadata struct {
		Attachments json.RawMessage `json:"attachments"`
	}
	if m.Metadata == nil || json.Unmarshal(m.Metadata, &metadata) != nil || len(metadata.Attachments) == 0 || string(metadata.Attachments) == "null" {
		return 0, nil
	}
	place := fmt.Sprintf("/messages/%d/metadata/attachments", index)
	var list []json.RawMessage
	if json.Unmarshal(metadata.Attachments, &list) != nil {
		return 0, data.RefuseAt(place, "invalid_message", "metadata.attachments must be an array")
	}
	for i, raw := range list {
		var a plugins.Attachment
		if json.Unmarshal(raw, &a) != nil || a.Path == "" {
			return 0, data.RefuseAt(fmt.Sprintf("%s/%d", place, i), "invalid_message", "An attachment must be an object with a path, as its upload was answered with")
		}
	}
	return len(list), nil
}

// take sets the messages that the thread takes. Attachment references are checked here, and only for these messages and an edit, because a
// client repeats earlier messages as it received them.
func (p *Plan) take(req *Request) error {
	size := 0
	if p.edit >= 0 {
		m, err := unclaimed(p.edit, &req.Messages[p.edit])
		if err != nil {
			return err
		}
		p.Edited, size = &m, len(m.AppendJSON(nil, agui.Stored))
	}
	named := make(map[string]bool)
	p.Taken = make([]data.Message, 0, len(p.fresh))
	for _, i := range p.fresh {
		m, err := unclaimed(i, &req.Messages[i])
		if err != nil {
			return err
		}
		if m.ID == "" || named[m.ID] || i == p.renamed { // some clients give the result and the message of a call the id of that call
			m.ID = data.NewID()
			p.Minted = append(p.Minted, m.ID)
		}
		named[m.ID] = true
		p.Taken = append(p.Taken, data.Message{State: data.MessageQueued, ContextItemIDs: req.ContextItemIDs, Message: m})
		p.Size += len(p.Taken[len(p.Taken)-1].Stored())
	}
	if p.Size+size > req.MaxBytes {
		return data.Refuse(data.KindTooLarge, "messages_too_large", "The new messages of a run may hold %d bytes", req.MaxBytes)
	}
	return nil
}

// unclaimed returns the client's message at that index without the members that only Baton and agents may set, those of its metadata and opaque
// values, and with {} for the missing arguments of a call.
func unclaimed(i int, of *agui.Message) (agui.Message, error) {
	m := *of
	m.EncryptedValue, m.Metadata = "", anonymous(m.Metadata)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		c.Arguments, c.EncryptedValue, c.Metadata = cmp.Or(c.Arguments, "{}"), "", anonymous(c.Metadata)
	}
	attached, err := checkAttachments(i, &m)
	if err == nil && attached == 0 {
		err = checkContent(i, of)
	}
	return m, err
}

// anonymous returns metadata without the members that only Baton writes.
func anonymous(metadata json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(metadata, &members) // absent metadata has none
	n := len(members)
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return agui.IsReservedMember(name) })
	if len(members) == n {
		return metadata
	}
	metadata, _ = data.JSON(members) // was JSON
	return metadata
}
