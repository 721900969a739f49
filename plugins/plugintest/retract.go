package plugintest

import (
	"cmp"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// doing is a Do whose function is running.
type doing struct {
	outer *doing   // the enclosing Do, nil outside of any
	shown []string // ids of the messages that it has started
}

// doingKey is the context key of a host's Do.
type doingKey struct{ h *host }

// doing returns the innermost running Do. It is nil if there is none, or if several run concurrently, because a message
// could then belong to any. The caller holds h.s.mu.
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

// noteShown adds the message that ev starts to the running Do. The caller holds h.s.mu.
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
			return // an earlier message
		}
	default:
		return
	}
	if !slices.Contains(d.shown, id) {
		d.shown = append(d.shown, id)
	}
}

// takeBack retracts the messages of Dos that a crash interrupted, except those with a recorded call.
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
		s.write(agui.Retracted(ids))
	}
}
