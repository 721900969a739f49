// Package history has the messages of a thread that the workers of a run get.
package history

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// History has the messages of the thread that the workers of a run have read: the newest ones from before the run, and the thread's instructions.
type History struct {
	logs  *tail.Logs
	store data.Reader
	learn func([]data.Message)

	turn chan struct{} // of the goroutine that reads or writes the fields below, which may wait for the database

	older []data.Message // the instructions before rows
	rows  []data.Message
	more  bool // the thread has more than rows
	read  int  // the limit with which rows were read; 0 before
}

// New returns a History that has read nothing. learn is called with all that it reads.
func New(logs *tail.Logs, store data.Reader, learn func([]data.Message)) *History {
	return &History{logs: logs, store: store, learn: learn, turn: make(chan struct{}, 1)}
}

// HasAll sets all messages of a thread that has no others.
func (h *History) HasAll(rows []data.Message) {
	h.rows, h.read = slices.Clone(rows), tail.LatestMessages // guards hide those of the span
	h.learn(h.rows)
}

// Messages returns the newest messages of a thread up to an event, as workers get them, and whether there are older ones.
func (h *History) Messages(ctx context.Context, thread, upTo int64, limit int) ([]agui.Message, bool, error) {
	if limit <= 0 || limit > tail.LatestMessages {
		limit = tail.LatestMessages
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	if h.read == 0 || h.more && h.read < limit {
		if err := h.load(ctx, thread, upTo, limit); err != nil {
			return nil, false, err
		}
	}
	first := max(len(h.rows)-limit, 0)
	more := h.more || first > 0
	earlier, rows := slices.Clip(h.older), h.rows[first:]
	for i := range h.rows[:first] {
		if data.Instructs(&h.rows[i].Message) {
			earlier = append(earlier, h.rows[i])
		}
	}
	if len(earlier) > 0 {
		rows = slices.Concat(earlier, rows)
	}
	notice := func(m agui.Message) bool { return m.Role == agui.RoleSystem && !data.Instructs(&m) }
	return paired(slices.DeleteFunc(tail.Contents(rows), notice)), more, nil
}

// Workers get as many messages as snapshots.
var _ = [1]struct{}{}[plugins.MaxMessages-tail.LatestMessages]

// RunOf returns the key of the run that an earlier message belongs to, 0 for any other.
func (h *History) RunOf(message string) int64 {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	all := slices.Concat(h.rows, h.older)
	if i := slices.IndexFunc(all, func(m data.Message) bool { return m.ID == message }); i >= 0 {
		return all[i].RunKey
	}
	return 0
}

// load reads the newest messages, and the instructions if they can be older.
func (h *History) load(ctx context.Context, thread, upTo int64, limit int) error {
	rows, err := commit.RetryUnavailable(ctx, func() ([]data.Message, error) { return h.logs.Messages(ctx, thread, upTo, limit) })
	if err != nil {
		return err
	}
	var older []data.Message
	if len(rows) > 0 && rows[0].Seq > 1 {
		older, err = commit.RetryUnavailable(ctx, func() ([]data.Message, error) { return h.store.Instructions(ctx, thread, upTo) })
		older = slices.DeleteFunc(older, func(m data.Message) bool { return m.Seq >= rows[0].Seq })
	}
	if err == nil {
		h.learn(rows)
		h.older = older
		h.rows, h.more, h.read = rows, len(rows) == limit || len(rows) > 0 && rows[0].Seq > 1 && fill(rows), limit
	}
	return err
}

// fill reports whether messages may be as many as fit into memory, so that there can be older ones.
func fill(rows []data.Message) bool {
	size := 0
	for i := range rows {
		m := &rows[i]
		size += len(m.Content) + len(m.Parts) + len(m.Metadata)
		for _, c := range m.ToolCalls {
			size += len(c.Arguments)
		}
	}
	return size > data.ThreadBytes/4
}

// paired removes from msgs, which are in order, everything that model providers refuse: results without their call, which is
// hidden or too old, calls without a result or with incomplete arguments, and a second call or result of one id. It also
// removes the messages that hold nothing else. The result is in the memory of msgs.
func paired(msgs []agui.Message) []agui.Message {
	called, answered := make(map[string]bool), make(map[string]bool)
	for i := range msgs {
		for _, c := range msgs[i].ToolCalls {
			called[c.ID] = json.Valid([]byte(c.Arguments))
		}
		if m := &msgs[i]; m.Role == agui.RoleTool && called[m.ToolCallID] {
			answered[m.ToolCallID] = true
		}
	}
	list := msgs[:0]
	for _, m := range msgs {
		if m.Role == agui.RoleTool {
			if !answered[m.ToolCallID] {
				continue
			}
			answered[m.ToolCallID] = false // one is enough
		}
		calls := slices.DeleteFunc(slices.Clone(m.ToolCalls), func(c agui.ToolCall) bool {
			lost := !called[c.ID] || !answered[c.ID]
			called[c.ID] = false
			return lost
		})
		if len(calls) < len(m.ToolCalls) && len(calls) == 0 && m.Content == "" && m.Parts == nil {
			continue
		}
		m.ToolCalls = calls
		list = append(list, m)
	}
	return list
}
