package plugintest

import (
	"cmp"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// doing is a Do whose function is running.
type doing struct {
	outer *doing   // the Do that it is in, nil outside of any
	shown []string // ids of the messages it has begun
}

// doingKey is where the context of a Do's function has the Do of a host.
type doingKey struct{ h *host }

// doing returns the innermost Do that is running, nil when there is none, or several side by side: then nobody can tell
// whose a message is. h.s.mu is held.
func (h *host) doing() *doing {
	var inner *doing
	for _, d := range h.dos {
		if d.outer != inner {
			return nil
		}
		inner = d
	}
	return inner
}

// noteShown notes the message that ev begins as one of the Do that is running. h.s.mu is held.
func (h *host) noteShown(ev agui.Event) {
	d := h.doing()
	if d == nil {
		return
	}
	id := ""
	switch e := ev.(type) {
	case agui.TextMessageStart:
		id = e.MessageID
	case agui.ReasoningMessageStart:
		id = e.MessageID
	case agui.ToolCallStart:
		id = cmp.Or(e.ParentMessageID, e.ToolCallID)
		if m, _ := h.s.fold.Message(id); len(m.ToolCalls) != 1 || m.Content != "" {
			return // it was there before
		}
	default:
		return
	}
	if !slices.Contains(d.shown, id) {
		d.shown = append(d.shown, id)
	}
}

// takeBack takes back what the Do has shown in which the process has died, but for a message that a call belongs to
// whose record is there.
func (s *session) takeBack(recorded map[string]bool) {
	var ids []string
	gone := make(map[string]bool)
	for _, id := range s.cut {
		m, ok := s.fold.Message(id)
		made := func(c agui.ToolCall) bool { return recorded[c.ID] }
		if !ok || s.retracted[id] || slices.ContainsFunc(m.ToolCalls, made) {
			continue
		}
		ids = append(ids, id)
		for _, c := range m.ToolCalls {
			gone[c.ID] = true
		}
	}
	s.cut = nil
	for _, m := range s.fold.Messages() {
		if gone[m.ToolCallID] {
			ids = append(ids, m.ID)
		}
	}
	if ids != nil {
		s.write(plugins.Retracted(ids))
	}
}
