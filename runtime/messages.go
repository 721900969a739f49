package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/tail"
)

func checkMessages(msgs []agui.Message) error {
	for i := range msgs {
		m := &msgs[i]
		switch {
		case m.ID != "" && !ValidName(m.ID):
			return refuseAt(fmt.Sprintf("/messages/%d/id", i), "invalid_name", "A message id must be 1 to 200 characters without control characters")
		case m.ToolCallID != "" && !ValidName(m.ToolCallID):
			return refuseAt(fmt.Sprintf("/messages/%d/toolCallId", i), "invalid_name", "A toolCallId must be 1 to 200 characters without control characters")
		}
		switch m.Role {
		case agui.RoleUser, agui.RoleAssistant, agui.RoleSystem, agui.RoleDeveloper, agui.RoleTool, agui.RoleReasoning, agui.RoleActivity:
		default:
			return refuseAt(fmt.Sprintf("/messages/%d/role", i), "invalid_message", "A message has the unknown role %q", m.Role)
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
			return refuseAt(fmt.Sprintf("/messages/%d/%s", i, name), "invalid_message", "A message has no member %s in AG-UI; use %s", name, foreign[name])
		}
	}
	if j := m.UnknownPart(); j >= 0 {
		return refuseAt(fmt.Sprintf("/messages/%d/content/%d/type", i, j), "invalid_message",
			"The type of a part of content must be text, image, audio, video or document")
	}
	return nil
}

// checkContent refuses a new message without content: of a person or a client always, else if it has unknown members, which may be
// its content in another API's form.
func checkContent(i int, m *agui.Message) error {
	if hasContent(m) || m.Role == agui.RoleActivity || len(m.ToolCalls) > 0 || m.EncryptedValue != "" {
		return nil
	}
	var metadata struct {
		Attachments []json.RawMessage `json:"attachments"`
	}
	if json.Unmarshal(m.Metadata, &metadata) == nil && len(metadata.Attachments) > 0 {
		return nil
	}
	switch m.Role {
	case agui.RoleAssistant, agui.RoleReasoning, agui.RoleTool:
		if m.Extra == nil {
			return nil
		}
	}
	return refuseAt(fmt.Sprintf("/messages/%d/content", i), "invalid_content", "Message content must not be empty")
}

func hasContent(m *agui.Message) bool {
	return strings.TrimSpace(m.Content) != "" || m.Parts != nil && string(m.Parts) != "[]"
}

// reconcile compares the request's list of messages with the thread.
func (s *starting) reconcile(ctx context.Context) (err error) {
	have := stored{first: s.first, lastSeq: s.th.LastSeq}
	if ids := namedBy(s.req); !s.first && len(ids) > 0 {
		if have.byID, err = s.rt.keyed.messageHeads(ctx, s.at, s.th.LastEventID, ids); err != nil {
			return err
		}
	}
	if s.plan = reconcile(s.req, &have); !s.plan.needsThread {
		return nil
	}
	if have.open, err = s.rt.keyed.openRuns(ctx, s.at); err != nil {
		return err
	}
	if have.shown, err = s.rt.keyed.shownHeads(ctx, s.at); err != nil {
		return err
	}
	if makeWay := s.req.MakeWay; makeWay != nil && len(have.open) > 0 {
		if s.req.MakeWay = nil; makeWay(ctx) {
			if err := s.readThread(ctx); err != nil {
				return err
			}
			return s.reconcile(ctx)
		}
	}
	have.read, have.whole = true, len(have.shown) < tail.LatestMessages
	s.plan = reconcile(s.req, &have)
	return nil
}

// edited returns the request's message with the new content of an earlier one, nil when there is none.
func (s *starting) edited() *agui.Message {
	if s.plan.edit < 0 {
		return nil
	}
	m := unclaimed(s.req.Messages[s.plan.edit])
	return &m
}

// newMessages returns the messages that the thread takes, as queued rows and without their claims. Attachment references are checked here, and
// only for these messages and an edit, because a client repeats earlier messages as it received them.
func (s *starting) newMessages() ([]Message, error) {
	if m := s.edited(); m != nil {
		if err := cmp.Or(checkAttachments(s.plan.edit, m), checkContent(s.plan.edit, &s.req.Messages[s.plan.edit])); err != nil {
			return nil, err
		}
	}
	s.minted = nil
	named := make(map[string]bool)
	fresh := make([]Message, 0, len(s.plan.fresh))
	for _, i := range s.plan.fresh {
		m := unclaimed(s.req.Messages[i])
		if err := cmp.Or(checkAttachments(i, &m), checkContent(i, &s.req.Messages[i])); err != nil {
			return nil, err
		}
		if m.ID == "" || named[m.ID] || i == s.plan.renamed { // some clients give the result and the message of a call the id of that call
			m.ID = data.NewID()
			s.minted = append(s.minted, m.ID)
		}
		named[m.ID] = true
		fresh = append(fresh, Message{State: MessageQueued, ContextItemIDs: s.req.ContextItemIDs, Message: m})
	}
	return fresh, nil
}

// unclaimed returns a client's message without the members that only Baton and agents may set, those of its metadata and opaque values,
// and with {} for the missing arguments of a call.
func unclaimed(m agui.Message) agui.Message {
	m.EncryptedValue, m.Metadata = "", anonymous(m.Metadata)
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		c.Arguments, c.EncryptedValue, c.Metadata = cmp.Or(c.Arguments, "{}"), "", anonymous(c.Metadata)
	}
	return m
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

// recall finds the calls that the request answered when it was first made, and the ids that its messages without an
// id got.
func (s *starting) recall(ctx context.Context) error {
	s.minted, s.answers = nil, make(map[string]bool)
	if slices.ContainsFunc(s.req.Messages, func(m agui.Message) bool { return m.Role == agui.RoleTool }) {
		all, err := s.rt.keyed.interrupts(ctx, s.started().granted)
		if err != nil {
			return err
		}
		for i := range all {
			s.answers[all[i].ID] = all[i].Frontend
		}
	}
	unnamed := make(map[int64]bool) // by hash
	for i := range s.req.Messages {
		if m := &s.req.Messages[i]; m.Role == agui.RoleUser && m.ID == "" {
			unnamed[data.ContentHash(m)] = true
		}
	}
	for after, more := int64(0), len(unnamed) > 0; more; {
		page, err := s.rt.store.RunMessages(ctx, s.c.project, s.out.Started.RunKey, after, tail.LatestMessages)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			row := &page.Rows[i]
			if after = row.Key; unnamed[data.ContentHash(&row.Message)] {
				s.minted = append(s.minted, row.ID)
			}
		}
		more = page.More
	}
	return nil
}

// brought sets the messages, tool results and state that the client has itself.
func (s *starting) brought(out *decide.Started) {
	for i := range s.req.Messages {
		switch m := &s.req.Messages[i]; m.Role {
		case agui.RoleUser:
			out.Messages = append(out.Messages, m.ID)
		case agui.RoleTool: // clients also write a result for a call that they have approved
			if s.answers[m.ToolCallID] {
				out.Results = append(out.Results, m.ToolCallID)
			}
		}
	}
	out.Messages = append(out.Messages, s.minted...)
	out.State = s.req.State
	if s.out.Claimed {
		out.Before = s.th.State
	}
}
