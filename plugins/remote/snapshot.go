package remote

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/batonrun/baton/runtime/agui"
)

// messages applies a snapshot of the remote's messages: unknown ones become our messages, except those of users and
// instructions.
func (r *relay) messages(list []agui.Message) error {
	here, past := map[string]bool{}, map[string]bool{} // past: calls of earlier messages, which can have another id here
	for i := range list {
		here[list[i].ID] = true
		for _, c := range list[i].ToolCalls {
			past[c.ID] = past[c.ID] || r.sent[list[i].ID]
		}
	}
	used := map[[sha256.Size]byte]int{} // number of equal messages already matched
	for i := range list {
		m := &list[i]
		var err error
		switch {
		case r.sent[m.ID]:
		case m.ID == "":
			r.drop(string(agui.TypeMessagesSnapshot), errors.New("a message has no id"))
		case m.Role == agui.RoleAssistant:
			err = r.assistant(m, here, used)
		case m.Role == agui.RoleTool:
			if c := cmp.Or(r.calls[m.ToolCallID], r.before[m.ToolCallID]); c == nil && !past[m.ToolCallID] || c != nil && !c.answered {
				err = r.result(agui.Base{}, agui.ToolCallResult{
					Base: agui.Base{Metadata: m.Metadata}, MessageID: m.ID, ToolCallID: m.ToolCallID, Content: m.Text(), Parts: m.Parts,
				})
			}
		case m.Role == agui.RoleReasoning && r.ids["reasoning:"+m.ID] == "":
			if err = r.reason(agui.Base{}, m.ID, m.Text()); err == nil {
				err = r.endReasoning(m.ID)
			}
		case m.Role == agui.RoleActivity && r.ids["activity:"+m.ID] == "":
			content := m.Parts
			if content == nil {
				content = json.RawMessage("{}")
			}
			err = r.event(agui.ActivitySnapshot{MessageID: m.ID, ActivityType: m.ActivityType, Content: content})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assistant adds a message of the remote, unless the same text was streamed under another id.
func (r *relay) assistant(m *agui.Message, here map[string]bool, used map[[sha256.Size]byte]int) error {
	if r.ids["text:"+m.ID] == "" {
		if id := r.twin(m, here, used); id != "" {
			r.ids["text:"+m.ID] = id
		} else if text := m.Text(); text != "" {
			if err := r.text(agui.Base{}, m.ID, text); err != nil {
				return err
			}
			if err := r.endText(agui.TextMessageEnd{MessageID: m.ID}); err != nil {
				return err
			}
		}
	}
	for _, tc := range m.ToolCalls {
		if r.calls[tc.ID] != nil || r.before[tc.ID] != nil || tc.ID == "" || tc.Name == "" {
			continue
		}
		if err := r.whole(&call{theirs: tc.ID, name: tc.Name, parent: m.ID}, tc.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// twin returns the id of a message of this run that equals m and is not in the snapshot by its own id, here. used counts
// the messages already matched by others of the snapshot.
func (r *relay) twin(m *agui.Message, here map[string]bool, used map[[sha256.Size]byte]int) string {
	other := func(id string) bool {
		old, ok := r.view.Message(id)
		return ok && old.Role == agui.RoleAssistant && !here[marksOf(old.Metadata).ID]
	}
	text := m.Text()
	if text == "" {
		if len(m.ToolCalls) > 0 {
			if id := r.callers[m.ToolCalls[0].ID]; id != "" && other(id) {
				return id
			}
		}
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	for _, id := range r.said[sum][used[sum]:] {
		used[sum]++
		if other(id) && r.view.Text(id) == text {
			return id
		}
	}
	return ""
}
