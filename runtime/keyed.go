package runtime

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/runtime/tail"
)

// keyed reads rows by key. Each read takes a grant instead of a key, and only rows that were found for a Caller carry
// a grant.
type keyed struct {
	byKey data.Reader
	logs  *tail.Logs
}

func (k keyed) run(ctx context.Context, g grant) (data.Run, error) { return k.byKey.Run(ctx, g.run) }

// runWeight returns how many bytes a run has in memory when it begins, without reading them.
func (k keyed) runWeight(ctx context.Context, g grant) (data.Weight, error) {
	return k.byKey.Weight(ctx, g.thread, g.run)
}

func (k keyed) lastRun(ctx context.Context, g grant) (data.Run, error) {
	return k.byKey.LastRun(ctx, g.thread)
}

// openAndShown returns a thread's runs that are not over, and the newest messages that it shows, without their texts.
func (k keyed) openAndShown(ctx context.Context, g grant) (open []RunHead, shown []data.MessageHead, err error) {
	if open, err = k.byKey.OpenRuns(ctx, g.thread); err == nil {
		shown, err = k.byKey.ShownHeads(ctx, g.thread, tail.LatestMessages)
	}
	return open, shown, err
}

// messageHeads returns the messages of a thread, hidden ones included, whose id or toolCallId is among ids. It removes from ids what it
// finds in memory among the messages up to an event, and reads the rest. An id is true if it may be a message's.
func (k keyed) messageHeads(ctx context.Context, g grant, upTo int64, ids map[string]bool) (heads []data.MessageHead, err error) {
	for _, m := range k.logs.Cached(ctx, g.thread, upTo) {
		_, asked := ids[m.ID]
		delete(ids, m.ID)
		if message, ok := ids[m.ToolCallID]; ok && !message {
			asked = true
			delete(ids, m.ToolCallID)
		}
		if asked {
			heads = append(heads, data.MessageHead{
				RunKey: m.RunKey, Seq: m.Seq, State: m.State, ID: m.ID, ToolCallID: m.ToolCallID, Hash: cmp.Or(m.Hash, data.ContentHash(&m.Message)),
			})
		}
	}
	if len(ids) == 0 {
		return heads, nil
	}
	read, err := k.byKey.MessageHeads(ctx, g.thread, slices.Collect(maps.Keys(ids)))
	return append(heads, read...), err
}

func (k keyed) messagesByID(ctx context.Context, g grant, ids []string) ([]Message, error) {
	return k.byKey.MessagesByID(ctx, g.thread, ids)
}

func (k keyed) interrupts(ctx context.Context, g grant) ([]data.Interrupt, error) {
	return k.byKey.Interrupts(ctx, g.run)
}

func (k keyed) asked(ctx context.Context, g grant, may func(*data.Interrupt) bool) ([]agui.Interrupt, error) {
	return tail.AllAsked(ctx, k.byKey, g.run, may)
}

// readAnswers prepares the answers in a request for a run.
func (s *starting) readAnswers(ctx context.Context) (err error) {
	if !s.first {
		s.replies, err = s.rt.work.Answers.Find(ctx, s.rt.keyed.byKey, s.at.thread, s.req.Resume, s.req.Messages, s.plan.Known, s.rt.Runs.responder(s.c))
		s.answers = make(map[string]bool)
	}
	if s.replies != nil {
		for _, r := range s.replies.Replies {
			s.answers[r.Interrupt] = true
		}
	} else if err == nil && s.run.Definition == nil && s.run.Agent != s.run.WorkflowID { // the workflow is that of the thread's last run
		err = s.rt.Unknown(s.c, "unknown_workflow", "agent or workflow", s.run.WorkflowID)
	}
	return err
}

func (k keyed) spans(ctx context.Context, g grant) ([]data.Span, error) {
	return k.byKey.Spans(ctx, g.run)
}

// messagesUpTo returns the newest messages of a thread that events up to one have written and that it still shows.
func (k keyed) messagesUpTo(ctx context.Context, g grant, event int64) ([]Message, error) {
	return k.byKey.Messages(ctx, g.thread, event, tail.LatestMessages)
}

func (k keyed) nodes(ctx context.Context, g grant) ([]data.Node, error) {
	return k.byKey.Nodes(ctx, g.run)
}

func (k keyed) memos(ctx context.Context, g grant, generation int) ([]data.Memo, error) {
	return k.byKey.Memos(ctx, g.run, generation)
}

func (k keyed) lastEventID(ctx context.Context, g grant) (int64, error) {
	return k.byKey.LastEventID(ctx, g.thread)
}

// event returns one event of a thread, or nil when it was removed.
func (k keyed) event(ctx context.Context, g grant, id int64) (*data.StoredEvent, error) {
	stored, err := k.byKey.Events(ctx, g.thread, id-1, 1)
	if err != nil || len(stored) == 0 || stored[0].ID != id {
		return nil, err
	}
	return &stored[0], nil
}

func (k keyed) read(ctx context.Context, g grant, after int64, follow bool) (*Cursor, error) {
	return k.logs.Read(ctx, quota.OwnerOf(g.project, g.user), g.thread, g.name, after, follow)
}

// rings returns the size of all logs' records in memory.
func (k keyed) rings() int64 { return k.logs.Bytes() }

// hold returns the live end of a thread's log. The caller must release it.
func (k keyed) hold(g grant) *tail.Tail { return k.logs.Hold(g.thread, g.name) }

// runEvents reads a page of a run's events, backwards or not.
func (k keyed) runEvents(ctx context.Context, g grant, q *EventQuery) (recs []*Record, next int64, err error) {
	read := k.logs.RunEvents
	if q.Back {
		read = k.logs.RunEventsBefore
	}
	return read(ctx, tail.EventQuery{
		Thread: g.thread, ID: g.name, Run: g.run, After: q.After, Before: q.Before, Limit: q.Limit, Admit: q.Admit, Most: q.Most,
	})
}
