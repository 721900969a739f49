package tail

import (
	"context"
	"slices"
	"time"
	"weak"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// Retracts reports whether the event retracts messages.
func (r *Record) Retracts() bool {
	ev, ok := r.Event.(agui.Custom)
	return ok && ev.Name == agui.RetractedEvent
}

// Restated returns recs with a MESSAGES_SNAPSHOT without an id behind their last retraction: AG-UI's clients ignore the
// retraction itself. The snapshot has the messages at that event, unfinished ones as they were there.
func (r *Cursor) Restated(ctx context.Context, recs []*Record) ([]*Record, error) {
	for i, rec := range slices.Backward(recs) {
		if rec.Retracts() {
			snapshot, err := r.restate(ctx, rec)
			if err != nil {
				return nil, err
			}
			return slices.Insert(slices.Clone(recs), i+1, snapshot), nil
		}
	}
	return recs, nil
}

// restate returns the snapshot at a retraction.
func (r *Cursor) restate(ctx context.Context, at *Record) (*Record, error) {
	return reserveLarge(ctx, r, func() (*Record, int, error) {
		rec, err := r.t.restate(ctx, r, at)
		if err != nil {
			return nil, 0, err
		}
		return rec, rec.size, nil
	})
}

// restated is the snapshot that was made last, which the readers of a thread share while one of them has it, and the fold that the
// next one continues.
type restated struct {
	turn   chan struct{} // of one reader, which makes the snapshot; guards the fields below
	at     int64         // the retraction's id
	rec    weak.Pointer[Record]
	folded *folded
}

// folded is a fold of a run's events up to one of them. A reader that is behind has its own. Readers at the live end share one, so that
// a run that retracts often is folded once. The fold has a state only if states is set.
type folded struct {
	run    int64
	upTo   int64 // the id of that event
	states bool
	*fold.Fold
}

// nearest returns the fold of a and b that has less to go to an event of a run, or a new one.
func nearest(run, event int64, a, b *folded) *folded {
	best := &folded{run: run, Fold: fold.New(nil, nil)}
	for _, f := range []*folded{a, b} {
		if f != nil && f.run == run && f.upTo <= event && f.upTo > best.upTo {
			best = f
		}
	}
	return best
}

func (t *Tail) restate(ctx context.Context, r *Cursor, at *Record) (*Record, error) {
	select {
	case t.restated.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-t.restated.turn }()
	if rec := t.restated.rec.Value(); rec != nil && t.restated.at == at.ID {
		return rec, nil
	}
	f := nearest(at.RunKey, at.ID, r.folded, t.restated.folded)
	if r.folded = nil; f == t.restated.folded {
		t.restated.folded = nil
	}
	msgs, err := t.messagesAt(ctx, f, at.ID)
	if err != nil {
		return nil, err
	}
	if r.after < t.Committed() {
		r.folded = f
	} else {
		t.restated.folded = f
	}
	size := 0
	var buf []byte
	for i := range msgs {
		buf = msgs[i].AppendJSON(buf[:0], agui.Stored)
		size += len(buf)
	}
	base := agui.Base{ThreadID: t.id, RunID: at.Event.Common().RunID}
	rec := NewRecord(0, at.RunKey, agui.At(time.Now(), agui.MessagesSnapshot{Base: base, Messages: msgs}), size)
	t.restated.at, t.restated.rec = at.ID, weak.Make(rec)
	return rec, nil
}

// messagesAt returns the thread's messages at an event of f's run, including unfinished ones. It continues f to the event: the rows
// have what is stored now, so the run's own messages come from its events.
func (t *Tail) messagesAt(ctx context.Context, f *folded, event int64) ([]agui.Message, error) {
	if err := t.foldRun(ctx, f, event); err != nil {
		return nil, err
	}
	rows, err := t.logs.cfg.Store.Messages(ctx, t.key, event, LatestMessages)
	if err != nil {
		return nil, err
	}
	place := make(map[string]int, len(rows)) // of the message behind
	msgs := make([]agui.Message, len(rows))
	for i := range rows {
		msgs[i] = rows[i].Message
		place[msgs[i].ID] = i + 1
	}
	open := openMessages(f.Fold)
	next, added := 0, 0
	folded := make(map[string]agui.Message)
	for _, m := range f.Messages() { // in the order in which they began
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls { // an open call's arguments are not in its message
			m.ToolCalls[i].Arguments = f.Arguments(m.ToolCalls[i].ID)
		}
		folded[m.ID] = m
		if at, ok := place[m.ID]; ok {
			next = max(next, at)
		} else if open[m.ID] {
			msgs = slices.Insert(msgs, next+added, m)
			added++
		}
	}
	for i := range msgs {
		if m, ok := folded[msgs[i].ID]; ok {
			msgs[i] = m
		}
	}
	return Newest(inOrder(msgs), t.logs.cfg.EventBytes), nil
}

// foldRun continues the fold of a run's events up to one of them.
func (t *Tail) foldRun(ctx context.Context, f *folded, event int64) error {
	store := t.logs.cfg.Store
	spans, err := store.Spans(ctx, f.run)
	if err != nil {
		return err
	}
	for i := range spans {
		if f.states && spans[i].First <= event {
			if _, err := f.Apply(agui.StateSnapshot{Snapshot: spans[i].State}); err != nil {
				return err
			}
		}
		last := event // of the span's events: those behind it apply to the state of a later span
		if spans[i].Last != 0 {
			last = min(event, spans[i].Last)
		}
		for after := max(spans[i].First-1, f.upTo); after < last; {
			evs, err := store.Events(ctx, t.key, after, int(min(page, last-after)))
			if err != nil {
				return err
			}
			if len(evs) == 0 {
				break
			}
			recs, err := decodeAll(nil, evs, t.id)
			if err != nil {
				return err
			}
			for _, rec := range recs {
				if after = rec.ID; after > last { // the others were removed
					break
				}
				f.upTo = rec.ID
				switch rec.Event.(type) {
				case agui.StateSnapshot, agui.StateDelta:
					if !f.states {
						continue
					}
				}
				if _, err := f.Apply(rec.Event); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// openMessages returns the ids of the messages with an open text or call.
func openMessages(f *fold.Fold) map[string]bool {
	open := make(map[string]bool)
	for _, ev := range f.Open() {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			open[e.MessageID] = true
		case agui.ReasoningMessageStart:
			open[e.MessageID] = true
		case agui.ToolCallStart:
			open[e.ParentMessageID] = true
		}
	}
	return open
}
