package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/log"
)

// Snapshot returns the thread as it is now. While a run is at work it waits for what that run has emitted so
// far to be stored.
func (rt *Runtime) Snapshot(ctx context.Context, th Thread) (Snapshot, error) {
	if err := rt.StandsBy(); err != nil {
		return Snapshot{}, err
	}
	t := rt.logs.Hold(th.Key, th.ID)
	defer t.Release()
	for {
		if err := t.Learn(ctx); err != nil {
			return Snapshot{}, unavailable(threadGone(err))
		}
		changed := t.Changed()
		if l := rt.liveOn(th.Key); l != nil {
			s, err := l.snapshot(ctx)
			if !errors.Is(err, log.ErrChanged) {
				return s, unavailable(err)
			}
		} else {
			s, err := t.Settled(ctx)
			if !errors.Is(err, log.ErrChanged) {
				return s, unavailable(threadGone(err))
			}
		}
		if err := rt.await(ctx, changed); err != nil {
			return Snapshot{}, err
		}
	}
}

// await waits for a thread's next change. It refuses while the database does not commit: there is none.
func (rt *Runtime) await(ctx context.Context, changed <-chan struct{}) error {
	if err := rt.commits.Trouble(); err != nil {
		return unavailable(err)
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-rt.abandoned.Done(): // a run that was released ends its span at the next start
		return ErrStopping
	}
}

// liveOn returns the run that this instance executes on the thread, nil when there is none.
func (rt *Runtime) liveOn(threadKey int64) *live {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, l := range rt.live {
		if l.t.Key() == threadKey {
			return l
		}
	}
	return nil
}

// snapshot is the thread as the run has left it so far. It fails with log.ErrChanged when the run's span ends
// meanwhile.
func (l *live) snapshot(ctx context.Context) (Snapshot, error) {
	l.mu.Lock()
	if l.gate != nil {
		l.mu.Unlock()
		return Snapshot{}, log.ErrChanged
	}
	run := l.run
	s := Snapshot{After: l.w.last, Run: &run, RunID: l.w.run.ID, Running: true, State: l.state(), Open: l.w.fold.Open()}
	folded := l.w.fold.Messages()
	var partial []Message
	for _, m := range folded {
		if row := l.w.messages[m.ID]; row != nil && row.EventID == 0 {
			partial = append(partial, Message{Seq: row.Seq, Message: m})
		}
	}
	l.mu.Unlock()

	if err := l.stored(ctx, s.After); err != nil {
		return Snapshot{}, err
	}
	rows, err := l.rt.store.Messages(ctx, l.t.Key(), s.After, log.LatestMessages)
	if err != nil {
		return Snapshot{}, err
	}
	s.Messages = log.Newest(asOf(rows, folded, partial))
	return s, nil
}

// asOf is rows as they were when the log folded to folded: later events may have changed them since. Those of
// folded that had no row then are partial.
func asOf(rows []Message, folded []agui.Message, partial []Message) []agui.Message {
	then := make(map[string]agui.Message, len(folded))
	for _, m := range folded {
		then[m.ID] = m
	}
	for i := range rows {
		if m, ok := then[rows[i].ID]; ok {
			rows[i].Message = m
		}
	}
	rows = append(rows, partial...)
	slices.SortStableFunc(rows, func(a, b Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return log.Contents(rows)
}

// stored waits until the run's event of that id is stored.
func (l *live) stored(ctx context.Context, id int64) error {
	for {
		changed := l.t.Changed()
		if l.t.Committed() >= id {
			return nil
		}
		if l.source.Lost() || l.rt.liveRun(l.run.Key) != l {
			return log.ErrChanged
		}
		if err := l.rt.await(ctx, changed); err != nil {
			return err
		}
	}
}

// RunSnapshot returns the thread as the run's latest span left it. Of a run that has not started yet it
// returns one without anything.
func (rt *Runtime) RunSnapshot(ctx context.Context, th Thread, run Run) (RunSnapshot, error) {
	if err := rt.StandsBy(); err != nil {
		return RunSnapshot{}, err
	}
	t := rt.logs.Hold(th.Key, th.ID)
	defer t.Release()
	for {
		if err := t.Learn(ctx); err != nil {
			return RunSnapshot{}, unavailable(threadGone(err))
		}
		changed := t.Changed()
		s, err := t.OfRun(ctx, &run, func(ctx context.Context) (Snapshot, error) {
			if l := rt.liveRun(run.Key); l != nil {
				return l.snapshot(ctx)
			}
			return Snapshot{}, log.ErrChanged
		})
		if !errors.Is(err, log.ErrChanged) {
			return s, unavailable(err)
		}
		if err := rt.await(ctx, changed); err != nil {
			return RunSnapshot{}, err
		}
	}
}

// RunEvents returns up to limit of the run's events behind the one with the id after, those that admit holds
// true for, fewer when they are large, and whether another such event is stored behind them. It fails for a cursor
// beyond the end of the thread's log.
func (rt *Runtime) RunEvents(ctx context.Context, th Thread, run Run, after int64, limit int, admit func(*log.Record) bool) (recs []*log.Record, more bool, err error) {
	recs, more, err = rt.logs.RunEvents(ctx, &th.ThreadHead, run.Key, after, limit, admit)
	return recs, more, unavailable(threadGone(err))
}
