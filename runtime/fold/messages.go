package fold

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// fragment appends text to a message, open or not.
func (f *Fold) fragment(id, delta string, metadata json.RawMessage) {
	m := f.last
	if m == nil || m.ID != id {
		if m = f.list.byID[id]; m == nil {
			return
		}
		f.last = m
	}
	switch {
	case m.Role == agui.RoleActivity: // an activity has no text
		return
	case m.streaming:
		m.text = append(m.text, delta...)
	case m.Parts != nil:
		m.Content = delta
	default:
		m.Content += delta
	}
	m.Parts = nil
	f.list.count(m, len(delta))
	if metadata != nil {
		f.list.annotate(m, &m.Metadata, metadata)
	}
}

func (f *Fold) startText(e agui.TextMessageStart) {
	role := e.Role
	if role == "" {
		role = agui.RoleAssistant
	}
	m := f.begin(agui.Message{ID: e.MessageID, Role: role, Name: e.Name, SubagentRunID: e.SubagentRunID})
	if m == nil {
		return
	}
	f.list.annotate(m, &m.Metadata, object("agent", e.Agent, "stage", e.Stage))
	f.list.annotate(m, &m.Metadata, e.Metadata)
	e.Base = opener(e.Base)
	f.opens(e)
}

func (f *Fold) startReasoning(e agui.ReasoningMessageStart) {
	m := f.begin(agui.Message{ID: e.MessageID, Role: agui.RoleReasoning, SubagentRunID: e.SubagentRunID})
	if m == nil {
		return
	}
	f.list.annotate(m, &m.Metadata, e.Metadata)
	e.Base = opener(e.Base)
	f.opens(e)
}

// begin opens the text of the message with m's id, adding m if there is none. It returns nil for an activity, which has
// no text.
func (f *Fold) begin(m agui.Message) *message {
	old := f.list.byID[m.ID]
	if old == nil {
		old = f.list.add(m)
	}
	if old.Role == agui.RoleActivity {
		return nil
	}
	f.list.changing(old, old.stream)
	return old
}

// stream opens m's text.
func (m *message) stream() {
	if m.Role != agui.RoleActivity && !m.streaming {
		m.text, m.streaming = []byte(m.Content), true
	}
}

// settle closes m's text.
func (m *message) settle() {
	if !m.streaming {
		return
	}
	if m.Parts == nil {
		m.Content = string(m.text)
	}
	m.text, m.streaming = nil, false
}

func (f *Fold) endText(e agui.TextMessageEnd) []string {
	metadata := e.Metadata
	if e.Output != nil {
		out, _ := e.Output.MarshalJSON()
		metadata = agui.MergeMetadata(member("workerAgentOutput", out), metadata)
	}
	return f.endMessage(e, e.MessageID, metadata)
}

func (f *Fold) endMessage(ev agui.Event, id string, metadata json.RawMessage) []string {
	f.close(ev)
	m := f.list.byID[id]
	if m == nil || m.Role == agui.RoleActivity {
		return nil
	}
	f.list.changing(m, m.settle)
	f.list.annotate(m, &m.Metadata, metadata)
	return m.changed()
}

// changed returns m's id if m is complete.
func (m *message) changed() []string {
	if !m.complete() {
		return nil
	}
	return []string{m.ID}
}

// Result is Apply for a tool result. It adds a tool message behind the calling message and its earlier results. output
// is e.Output as JSON, nil to encode it here.
func (f *Fold) Result(e agui.ToolCallResult, output []byte) ([]string, error) {
	if err := f.checkResult(e); err != nil {
		return nil, fmt.Errorf("tool result: %w", err)
	}
	m := agui.Message{
		ID:            e.MessageID,
		Role:          agui.RoleTool,
		Content:       e.Content,
		ToolCallID:    e.ToolCallID,
		SubagentRunID: e.SubagentRunID,
		Metadata:      e.Metadata,
	}
	if e.Parts != nil {
		m.Content, m.Parts = "", e.Parts
	}
	if e.Output != nil {
		if output == nil {
			output, _ = e.Output.MarshalJSON()
		}
		m.Metadata = agui.MergeMetadata(member("toolAgentOutput", output), m.Metadata)
	}
	at := f.list.end
	if c := f.list.calls[e.ToolCallID]; c != nil && c.owner.Role == agui.RoleAssistant {
		if at = c.owner; at.results != nil {
			at = at.results
		}
		for at.next != nil && at.next.Role == agui.RoleTool {
			at = at.next
		}
		c.owner.results = f.list.addBehind(at, m)
	} else {
		f.list.addBehind(at, m)
	}
	return []string{e.MessageID}, nil
}

// Brought excludes a message's present bytes from grown, because no worker wrote them. Later additions count.
func (f *Fold) Brought(id string) {
	if m := f.list.byID[id]; m != nil {
		f.list.count(m, -max(m.counts, 0))
	}
}

// Size returns a message's memory in bytes.
func Size(m *agui.Message) int {
	n := each + len(m.ID) + len(m.Content) + len(m.Parts) + len(m.Name) + len(m.ToolCallID) + len(m.Error) + len(m.ActivityType) +
		len(m.EncryptedValue) + len(m.SubagentRunID) + len(m.Metadata) + len(m.Extra)
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		n += each + len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.EncryptedValue) + len(c.Metadata)
	}
	return n
}

// replace replaces all messages. Only messages for which made is true count.
func (f *Fold) replace(messages []agui.Message, made func(*agui.Message) bool) {
	f.list, f.last = list{byID: make(map[string]*message, len(messages)), calls: make(map[string]*call)}, nil
	for _, ev := range f.open {
		f.list.grown += opening(ev)
	}
	for i := range messages {
		if made(&messages[i]) {
			f.list.add(messages[i])
		} else {
			f.list.bring(messages[i])
		}
	}
}

// replaceMessages applies MESSAGES_SNAPSHOT. Activities and reasoning that the snapshot does not cover stay, and open
// entities continue in the new messages of the same ids.
func (f *Fold) replaceMessages(e agui.MessagesSnapshot) (changed []string) {
	keeps := keeper(e)
	next := make(map[string]*agui.Message, len(e.Messages))
	for i := range e.Messages {
		next[e.Messages[i].ID] = &e.Messages[i]
		changed = append(changed, e.Messages[i].ID)
	}
	var all []agui.Message
	seen := map[string]bool{}
	for m := f.list.first; m != nil; m = m.next {
		n := next[m.ID]
		switch {
		case n != nil:
			all = append(all, *n)
		case keeps(&m.Message):
			all = append(all, m.view())
		default:
			changed = append(changed, m.ID)
		}
		seen[m.ID] = true
	}
	for _, m := range e.Messages {
		if !seen[m.ID] {
			all = append(all, m)
		}
	}
	had := f.list.byID
	f.replace(all, func(m *agui.Message) bool { return had[m.ID] != nil && had[m.ID].counts > 0 })
	f.reopen()
	return slices.DeleteFunc(changed, func(id string) bool { return f.list.byID[id] != nil && !f.list.byID[id].complete() })
}

// keeper returns a filter for messages that stay although the snapshot e does not have them.
func keeper(e agui.MessagesSnapshot) func(*agui.Message) bool {
	has := map[agui.Role]bool{}
	for i := range e.Messages {
		has[e.Messages[i].Role] = true
	}
	types, declared := authority(e.Metadata)
	return func(m *agui.Message) bool {
		switch m.Role {
		case agui.RoleReasoning:
			return !has[agui.RoleReasoning]
		case agui.RoleActivity:
			if declared {
				return types != nil && !slices.Contains(types, m.ActivityType)
			}
			return !has[agui.RoleActivity]
		}
		return false
	}
}

// authority returns the activity types for which a snapshot's metadata claims to be complete, nil for all, and whether
// it makes such a claim. It is a convention of @ag-ui/client.
func authority(metadata json.RawMessage) (types []string, declared bool) {
	var all struct {
		Client *json.RawMessage `json:"@ag-ui/client"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &all) != nil || all.Client == nil {
		return nil, false
	}
	var client map[string]json.RawMessage
	if json.Unmarshal(*all.Client, &client) != nil || client == nil {
		return []string{}, true
	}
	raw, ok := client["authoritativeActivityTypes"]
	switch {
	case !ok:
		return nil, false
	case string(raw) == "null":
		return nil, true
	case json.Unmarshal(raw, &types) != nil || types == nil:
		return []string{}, true
	}
	return types, true
}
