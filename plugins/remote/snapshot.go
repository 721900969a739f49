package remote

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
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
		if id := r.said.twin(m, r.view, here, used); id != "" {
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

// said has the texts and calls of this run, to match a snapshot's messages with ours.
type said struct {
	texts   map[[sha256.Size]byte][]string // our ids of complete texts, by content
	n       int                            // number of these texts
	callers map[string]string              // our ids of messages with calls, by the remote's ids
}

// note indexes texts and calls, to match a snapshot's messages with ours.
func (s *said) note(ev agui.Event, view *fold.Fold) {
	switch e := ev.(type) {
	case agui.TextMessageEnd:
		if text := view.Text(e.MessageID); text != "" && s.n < maxIDs {
			s.n++
			sum := sha256.Sum256([]byte(text))
			s.texts[sum] = append(s.texts[sum], e.MessageID)
		}
	case agui.ToolCallStart:
		s.callers[marksOf(e.Metadata).ID] = cmp.Or(e.ParentMessageID, e.ToolCallID) // the view's id of the message
	}
}

// twin returns the id of a message of this run that equals m and is not in the snapshot by its own id, here. used counts
// the messages already matched by others of the snapshot.
func (s *said) twin(m *agui.Message, view *fold.Fold, here map[string]bool, used map[[sha256.Size]byte]int) string {
	other := func(id string) bool {
		old, ok := view.Message(id)
		return ok && old.Role == agui.RoleAssistant && !here[marksOf(old.Metadata).ID]
	}
	text := m.Text()
	if text == "" {
		if len(m.ToolCalls) > 0 {
			if id := s.callers[m.ToolCalls[0].ID]; id != "" && other(id) {
				return id
			}
		}
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	for _, id := range s.texts[sum][used[sum]:] {
		used[sum]++
		if other(id) && view.Text(id) == text {
			return id
		}
	}
	return ""
}
