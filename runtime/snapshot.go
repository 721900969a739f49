package runtime

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// Snapshot returns the thread as it is now. While a run executes it waits until the events that the run has emitted
// so far are stored.
func (rd *Logs) Snapshot(ctx context.Context, of Log) (Snapshot, error) {
	return rd.latest(ctx, of, tail.LatestMessages)
}

// latest is Snapshot with the thread's newest limit stored messages.
func (rd *Logs) latest(ctx context.Context, of Log, limit int) (Snapshot, error) {
	g, err := of.grant()
	if err != nil {
		return Snapshot{}, err
	}
	t := rd.keyed.hold(g)
	defer t.Release()
	s, err := rd.work.Snapshot(ctx, t, limit)
	return s, unavailable(data.Gone(err, ErrThreadNotFound))
}

// MessageFilter selects the messages that Logs.Messages returns.
type MessageFilter struct {
	Before string // a message's id: return the messages before it; the newest when empty
	Hidden bool   // include messages that an edit, another answer or a rewind has hidden; only stored messages then
	Limit  int    // 0 means as many as fit; results of calls may be added to it
}

// Messages is Snapshot with the thread's messages that f selects, as many as fit 8 MB. Messages that Snapshot
// includes are the same as there, also while they are being written.
func (rd *Logs) Messages(ctx context.Context, of Log, f MessageFilter) (Snapshot, error) {
	g, err := of.grant()
	if err != nil {
		return Snapshot{}, err
	}
	s, shown, err := rd.latestBefore(ctx, of, f)
	if err != nil {
		return s, err
	}
	if s.Messages = s.Messages[:max(shown, 0)]; f.Hidden || f.Before != "" && len(s.Messages) == 0 {
		s.Messages, err = rd.messagesBefore(ctx, g, f, shown == 0)
		return s, unavailable(data.Gone(err, ErrThreadNotFound))
	}
	if f.Limit > 0 {
		s.Messages = s.Messages[max(len(s.Messages)-f.Limit, 0):]
	}
	return s, nil
}

// latestBefore returns a snapshot with the messages that f selects and maybe more, and where f.Before is in it, -1 if it has not been
// found. It reads no more of a long thread than it needs.
func (rd *Logs) latestBefore(ctx context.Context, of Log, f MessageFilter) (s Snapshot, shown int, err error) {
	limit := tail.LatestMessages
	if f.Limit > 0 {
		limit = min(f.Limit, limit)
	}
	for ; ; limit = min(4*limit, tail.LatestMessages) {
		if s, err = rd.latest(ctx, of, limit); err != nil {
			return s, 0, err
		}
		if shown = len(s.Messages); f.Before != "" {
			shown = slices.IndexFunc(s.Messages, func(m agui.Message) bool { return m.ID == f.Before })
		}
		whole := limit == tail.LatestMessages || len(s.Messages) < limit
		if whole || shown > 0 && shown >= f.Limit && !cut(s.Messages) {
			return s, shown, nil
		}
	}
}

// cut reports whether msgs has a result without its call: an earlier message has it.
func cut(msgs []agui.Message) bool {
	called := make(map[string]bool)
	for i := range msgs {
		for _, c := range msgs[i].ToolCalls {
			called[c.ID] = true
		}
		if msgs[i].Role == agui.RoleTool && !called[msgs[i].ToolCallID] {
			return true
		}
	}
	return false
}

// MessageRows returns the thread's messages with these ids, as they are stored. A message that is being written may
// be missing.
func (rd *Logs) MessageRows(ctx context.Context, of Log, ids []string) ([]Message, error) {
	g, err := of.grant()
	if err != nil {
		return nil, err
	}
	rows, err := rd.keyed.messagesByID(ctx, g, ids)
	return rows, unavailable(err)
}

// messagesBefore reads stored messages. If first is set, f.Before is the first message that the thread shows; it may
// be unstored because it is still being written, and then no message is before it.
func (rd *Logs) messagesBefore(ctx context.Context, g grant, f MessageFilter, first bool) ([]agui.Message, error) {
	before := int64(0)
	if f.Before != "" {
		var rows []Message
		var err error
		if ValidName(f.Before) { // an invalid name is never stored, and some databases cannot be queried for it
			rows, err = rd.keyed.messagesByID(ctx, g, []string{f.Before})
		}
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(rows, func(m Message) bool { return m.ID == f.Before && m.Seq > 0 })
		switch {
		case i < 0 && first:
			return nil, nil
		case i < 0:
			return nil, refuse(KindInvalid, "unknown_message", "The thread has no message of the id that before names")
		}
		before = rows[i].Seq
	}
	limit := tail.LatestMessages
	if f.Limit > 0 {
		limit = min(f.Limit, limit)
	}
	for {
		read, err := rd.store.MessagesBefore(ctx, g.project, g.thread, before, f.Hidden, limit)
		if err != nil {
			return nil, err
		}
		page := read.Rows
		if read.More {
			if page, err = rd.withoutResults(ctx, g, f.Hidden, page); err != nil {
				return nil, err
			}
			if len(page) == 0 && limit < tail.LatestMessages { // the page had only results of one message
				limit = min(2*limit, tail.LatestMessages)
				continue
			}
		}
		page, err = rd.withResults(ctx, g, before, f.Hidden, page)
		return tail.Newest(tail.Contents(page), rd.frameBytes), err
	}
}

// withoutResults removes results of calls that are on an earlier page: they are returned with their calls.
func (rd *Logs) withoutResults(ctx context.Context, g grant, hidden bool, rows []Message) ([]Message, error) {
	calls := madeIn(rows)
	missing := func(m Message) bool { return m.Role == agui.RoleTool && !calls[m.ToolCallID] }
	if !slices.ContainsFunc(rows, missing) {
		return rows, nil
	}
	earlier, err := rd.store.MessagesBefore(ctx, g.project, g.thread, rows[0].Seq, hidden, tail.LatestMessages)
	calls = madeIn(earlier.Rows)
	return slices.DeleteFunc(rows, func(m Message) bool {
		return m.Role == agui.RoleTool && calls[m.ToolCallID]
	}), err
}

// madeIn returns the ids of the calls in rows.
func madeIn(rows []Message) map[string]bool {
	made := make(map[string]bool)
	for _, id := range callsOf(rows) {
		made[id] = true
	}
	return made
}

func callsOf(rows []Message) (ids []string) {
	for i := range rows {
		for _, c := range rows[i].ToolCalls {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// withResults adds to messages from before a seq the results of their calls that were written at or after it.
func (rd *Logs) withResults(ctx context.Context, g grant, before int64, hidden bool, rows []Message) ([]Message, error) {
	calls := callsOf(rows)
	if before == 0 || len(calls) == 0 {
		return rows, nil
	}
	found, err := rd.keyed.messagesByID(ctx, g, calls)
	for _, m := range found {
		shown := m.State == MessageConsumed || hidden && m.State == data.MessageHidden && m.EventID > 0
		if m.Role == agui.RoleTool && m.Seq >= before && shown {
			rows = append(rows, m)
		}
	}
	return rows, err
}

// RunSnapshot returns the thread as it was at the end of the run's latest span. For a run that has not started yet
// the snapshot is empty.
func (rd *Logs) RunSnapshot(ctx context.Context, run *Run) (RunSnapshot, error) {
	g, err := run.grant()
	if err != nil {
		return RunSnapshot{}, err
	}
	t := rd.keyed.hold(g)
	defer t.Release()
	s, err := rd.work.RunSnapshot(ctx, t, &run.Run)
	return s, unavailable(data.Gone(err, ErrThreadNotFound))
}

// EventQuery selects the events of a run for a page of its log: see [tail.EventQuery].
type EventQuery struct {
	After, Before int64
	Back          bool // the page ends before Before, 0 for the end of the log
	Limit         int
	Admit         func(*Record) bool
	Most          int // how many events are read; 0 for no limit
}

// RunEvents returns up to q.Limit of the run's events that q admits, fewer when they are large, and the event behind
// which, or with q.Back before which, the next page continues: 0 when no other admitted event is stored there. It
// fails for an event beyond the end of the thread's log.
func (rd *Logs) RunEvents(ctx context.Context, run *Run, q EventQuery) (recs []*Record, next int64, err error) {
	g, err := run.grant()
	if err != nil {
		return nil, 0, err
	}
	recs, next, err = rd.keyed.runEvents(ctx, g, &q)
	return recs, next, unavailable(data.Gone(err, ErrThreadNotFound))
}
