package runtime

import (
	"slices"

	"github.com/batonrun/baton/runtime/agui"
)

// inOrder returns msgs, which stand in the order in which they began, as clients keep them and model
// providers want them: the results of a message's tool calls follow it at once, whatever parallel workers have
// written meanwhile.
func inOrder(msgs []agui.Message) []agui.Message {
	results := make([][]agui.Message, len(msgs)) // of the calls of the message at that index
	owner := make(map[string]int)
	moved := false
	for i := range msgs {
		for _, call := range msgs[i].ToolCalls {
			owner[call.ID] = i
		}
	}
	follows := func(m *agui.Message) (int, bool) {
		i, ok := owner[m.ToolCallID]
		return i, ok && m.Role == agui.RoleTool
	}
	for i := range msgs {
		if o, ok := follows(&msgs[i]); ok {
			results[o] = append(results[o], msgs[i])
			moved = moved || o+len(results[o]) != i
		}
	}
	if !moved {
		return msgs
	}
	ordered := make([]agui.Message, 0, len(msgs))
	for i := range msgs {
		if _, ok := follows(&msgs[i]); !ok {
			ordered = append(append(ordered, msgs[i]), results[i]...)
		}
	}
	return ordered
}

// paired leaves out of msgs, which stand in order, what model providers refuse: results whose call is not there, as it
// is hidden or too old, and calls without a result, with the messages that hold nothing else.
func paired(msgs []agui.Message) []agui.Message {
	called, answered := make(map[string]bool), make(map[string]bool)
	for i := range msgs {
		for _, c := range msgs[i].ToolCalls {
			called[c.ID] = true
		}
		if m := &msgs[i]; m.Role == agui.RoleTool && called[m.ToolCallID] {
			answered[m.ToolCallID] = true
		}
	}
	list := make([]agui.Message, 0, len(msgs))
	for _, m := range msgs {
		if m.Role == agui.RoleTool && !answered[m.ToolCallID] {
			continue
		}
		if lost := func(c agui.ToolCall) bool { return !answered[c.ID] }; slices.ContainsFunc(m.ToolCalls, lost) {
			m.ToolCalls = slices.DeleteFunc(slices.Clone(m.ToolCalls), lost)
			if len(m.ToolCalls) == 0 && m.Content == "" && m.Parts == nil {
				continue
			}
		}
		list = append(list, m)
	}
	return list
}
