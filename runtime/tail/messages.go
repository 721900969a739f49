package tail

import (
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// LatestMessages is the number of a thread's newest messages that snapshots and workers get.
const LatestMessages = 2000

// Contents returns the messages of rows in the order of clients.
func Contents(rows []data.Message) []agui.Message {
	msgs := make([]agui.Message, len(rows))
	for i := range rows {
		msgs[i] = rows[i].Message
	}
	return inOrder(msgs)
}

// Newest returns the newest messages that fit into an event of that size. Results stay with their calls. A message that
// is too large loses the metadata that repeats its content.
func Newest(msgs []agui.Message, event int) []agui.Message {
	size := 0
	own := false // msgs is a copy
	for i, m := range slices.Backward(msgs) {
		n := len(m.AppendJSON(nil, agui.Stored))
		if size+n > MaxMessages(event) {
			if !own {
				msgs, own = slices.Clone(msgs), true
			}
			msgs[i] = m.WithoutRepeats()
			n = len(msgs[i].AppendJSON(nil, agui.Stored))
		}
		if size += n; size > MaxMessages(event) {
			msgs = msgs[i+1:]
			if first := slices.IndexFunc(msgs, func(m agui.Message) bool { return m.Role != agui.RoleTool }); first > 0 {
				msgs = msgs[first:]
			}
			return msgs
		}
	}
	return msgs
}

// inOrder moves tool results, which stand in the order of their beginnings, directly behind the message that made the
// calls. Clients and model providers require that order.
func inOrder(msgs []agui.Message) []agui.Message {
	results := make([][]agui.Message, len(msgs)) // by index of the calling message
	owner := make(map[string]int)
	moved := false
	for i := range msgs {
		for _, call := range msgs[i].ToolCalls {
			if _, twice := owner[call.ID]; !twice {
				owner[call.ID] = i
			}
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
