package exec

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// history is what the workers of a run have read of the thread's messages: the newest ones from before the run, and the thread's instructions.
type history struct {
	turn chan struct{} // of the goroutine that reads or writes the fields below, which may wait for the database

	older []data.Message // the instructions before rows
	rows  []data.Message
	more  bool // the thread has more than rows
	read  int  // the limit with which rows were read; 0 before
}

// HasAll sets all messages of a thread that has no others.
func (l *Live) HasAll(rows []data.Message) {
	l.history.rows, l.history.read = slices.Clone(rows), tail.LatestMessages // guards hide those of the span
}

// messages implements plugins.Host.
func (h *history) messages(ctx context.Context, l *Live, limit int) ([]agui.Message, bool, error) {
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
		if err := h.load(ctx, l, limit); err != nil {
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

// runOf returns the key of the run that an earlier message belongs to, 0 for any other.
func (h *history) runOf(message string) int64 {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	for _, rows := range [][]data.Message{h.rows, h.older} {
		for i := range rows {
			if rows[i].ID == message {
				return rows[i].RunKey
			}
		}
	}
	return 0
}

// load reads the newest messages, and the instructions if they can be older.
func (h *history) load(ctx context.Context, l *Live, limit int) error {
	thread, upTo := l.out.span.Thread.Key, l.out.span.Began.UpTo
	rows, err := commit.RetryUnavailable(ctx, func() ([]data.Message, error) { return l.cfg.Logs.Messages(ctx, thread, upTo, limit) })
	if err != nil {
		return err
	}
	var older []data.Message
	if len(rows) > 0 && rows[0].Seq > 1 {
		older, err = commit.RetryUnavailable(ctx, func() ([]data.Message, error) { return l.cfg.Store.Instructions(ctx, thread, upTo) })
		older = slices.DeleteFunc(older, func(m data.Message) bool { return m.Seq >= rows[0].Seq })
	}
	if err == nil {
		l.out.mu.Lock()
		for i := range rows {
			l.out.prompts.Learn(&rows[i])
		}
		l.out.mu.Unlock()
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

// noteID returns the id of the piece with an agent's text about a thread under a key.
func noteID(thread int64, agent, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %q %q", thread, agent, key))
	return "n" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Remember implements host.Rememberer.
func (s *step) Remember(about, key, text string) error {
	if s.w.Parent != nil {
		return nil
	}
	run := cmp.Or(s.l.history.runOf(about), s.l.run.Key)
	return s.em.put([]data.Row{&data.PromptPiece{RunKey: run, ID: noteID(s.l.run.ThreadKey, s.w.Agent, key), Body: data.MustJSON(text)}}, nil)
}

// Recall implements host.Rememberer.
func (s *step) Recall(ctx context.Context, keys []string) (map[string]string, error) {
	texts := make(map[string]string)
	if s.w.Parent != nil {
		return texts, nil
	}
	for some := range slices.Chunk(keys, 100) { // one text each is small
		ids := make([]string, len(some))
		for i, key := range some {
			ids[i] = noteID(s.l.run.ThreadKey, s.w.Agent, key)
		}
		found, err := commit.RetryUnavailable(ctx, func() (data.Page[data.PromptPiece], error) {
			return s.l.cfg.Store.PromptPieces(ctx, s.l.run.Project, s.l.run.ThreadKey, ids)
		})
		if err != nil {
			return nil, err
		}
		for i := range found.Rows {
			var text string
			if err := json.Unmarshal(found.Rows[i].Body, &text); err != nil {
				return nil, err
			}
			if at := slices.Index(ids, found.Rows[i].ID); at >= 0 {
				texts[some[at]] = text
			}
		}
	}
	return texts, nil
}
