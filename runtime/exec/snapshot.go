package exec

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// Snapshot returns the thread as the run has left it so far. It fails with tail.ErrChanged when the run's span ends meanwhile.
func (l *Live) Snapshot(ctx context.Context, limit int, await func(context.Context, <-chan struct{}) error) (tail.Snapshot, error) {
	l.out.mu.Lock()
	if l.out.span.Gate() != nil {
		l.out.mu.Unlock()
		return tail.Snapshot{}, tail.ErrChanged
	}
	run := *l.run
	s := tail.Snapshot{After: l.out.span.Last(), Run: &run, RunID: l.out.span.Row.RunID, Running: true, State: l.out.span.State(), Open: l.out.span.Fold.Open()}
	folded := l.out.span.Fold.Messages()
	partial := l.out.span.Messages.Partial(folded)
	l.out.mu.Unlock()

	if err := l.stored(ctx, s.After, await); err != nil {
		return tail.Snapshot{}, err
	}
	rows, err := l.cfg.Logs.Messages(ctx, l.t.Key(), s.After, limit)
	if err != nil {
		return tail.Snapshot{}, err
	}
	s.Messages = tail.Newest(asOf(rows, folded, partial), l.cfg.FrameBytes)
	return s, nil
}

// asOf returns rows as they were when the log folded to folded: later events may have changed them since. The messages of
// folded without a row at that time are partial.
func asOf(rows []data.Message, folded []agui.Message, partial []data.Message) []agui.Message {
	then := make(map[string]agui.Message, len(folded))
	for _, m := range folded {
		then[m.ID] = m
	}
	rows = slices.Clone(rows)
	for i := range rows {
		if m, ok := then[rows[i].ID]; ok {
			rows[i].Message = m
		}
	}
	rows = append(rows, partial...)
	slices.SortStableFunc(rows, func(a, b data.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return tail.Contents(rows)
}

// stored waits until the run's event of that id is stored.
func (l *Live) stored(ctx context.Context, id int64, await func(context.Context, <-chan struct{}) error) error {
	for {
		changed := l.t.Changed()
		done := l.t.Committed() >= id
		switch {
		case l.out.source.Lost(): // others may have its ids
			return tail.ErrChanged
		case done:
			return nil
		}
		select {
		case <-l.over:
			return tail.ErrChanged
		default:
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// LastEvent returns the id, type and time of the run's last event. It reports false if the event is not stored yet.
func (l *Live) LastEvent() (id int64, kind agui.Type, at time.Time, ok bool) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	id, kind, at = l.out.span.LastEvent()
	return id, kind, at, kind != "" && l.t.Committed() >= id
}
