package work

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/tail"
)

// Snapshot returns a thread as it is now, with its newest limit stored messages. While a run executes, it waits until the run's events
// so far are stored.
func (rs *runs) Snapshot(ctx context.Context, t *tail.Tail, limit int) (tail.Snapshot, error) {
	return whole(ctx, rs, t, func() (tail.Snapshot, error) {
		if l := rs.liveOn(t.Key()); l != nil {
			return l.snapshot(ctx, limit, rs.await)
		}
		s, err := t.Settled(ctx, limit)
		if rs.shared && errors.Is(err, tail.ErrChanged) {
			return t.Growing(ctx)
		}
		return s, err
	})
}

// RunSnapshot returns a thread as the latest span of one of its runs left it. For a run that has not started yet it returns
// an empty snapshot.
func (rs *runs) RunSnapshot(ctx context.Context, t *tail.Tail, run *data.Run) (tail.RunSnapshot, error) {
	return whole(ctx, rs, t, func() (tail.RunSnapshot, error) {
		return t.OfRun(ctx, run, func(ctx context.Context) (tail.Snapshot, error) {
			if l := rs.liveRun(run.Key); l != nil {
				return l.snapshot(ctx, tail.LatestMessages, rs.await)
			}
			if rs.shared {
				return t.Growing(ctx)
			}
			return tail.Snapshot{}, tail.ErrChanged
		})
	})
}

// whole makes a snapshot, again when the thread has changed meanwhile.
func whole[S any](ctx context.Context, rs *runs, t *tail.Tail, snapshot func() (S, error)) (s S, err error) {
	for {
		if err := t.Learn(ctx); err != nil {
			return s, err
		}
		changed := t.Changed()
		if s, err = snapshot(); !errors.Is(err, tail.ErrChanged) {
			return s, err
		}
		if err := rs.await(ctx, changed); err != nil {
			return s, err
		}
	}
}

// await waits for a thread's next change, or beside other instances until it is time to look. It fails while the database does not commit, because there is no change then.
func (rs *runs) await(ctx context.Context, changed <-chan struct{}) error {
	var late <-chan time.Time
	if rs.shared {
		late = time.After(lookEvery)
	}
	for {
		troubled := rs.commits.Troubled()
		if err := rs.commits.Trouble(); err != nil {
			return err
		}
		select {
		case <-changed:
			return nil
		case <-late:
			return nil
		case <-troubled: // the trouble may be over
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-rs.abandoned: // a run that was released ends its span at the next start
			return commit.ErrStopping
		}
	}
}

// snapshot returns the thread as the run has left it so far. It fails with tail.ErrChanged when the run's span ends
// meanwhile.
func (l *live) snapshot(ctx context.Context, limit int, await func(context.Context, <-chan struct{}) error) (tail.Snapshot, error) {
	l.mu.Lock()
	if l.span.Gate() != nil {
		l.mu.Unlock()
		return tail.Snapshot{}, tail.ErrChanged
	}
	run := l.run
	s := tail.Snapshot{After: l.span.Last(), Run: &run, RunID: l.span.Row.RunID, Running: true, State: l.span.State(), Open: l.span.Fold.Open()}
	folded := l.span.Fold.Messages()
	partial := l.span.Partial(folded)
	l.mu.Unlock()

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
func (l *live) stored(ctx context.Context, id int64, await func(context.Context, <-chan struct{}) error) error {
	for {
		changed := l.t.Changed()
		done := l.t.Committed() >= id
		switch {
		case l.source.Lost(): // others may have its ids
			return tail.ErrChanged
		case done:
			return nil
		case l.isOver():
			return tail.ErrChanged
		}
		if err := await(ctx, changed); err != nil {
			return err
		}
	}
}

// isOver reports whether the run has ended here.
func (l *live) isOver() bool {
	select {
	case <-l.over:
		return true
	default:
		return false
	}
}
