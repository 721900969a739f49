package runtime

import (
	"context"

	"github.com/batonrun/baton/runtime/model"
)

// Snapshot returns the thread as it is now. While a run is at work it waits for what that run has emitted so
// far to be stored.
func (rt *Runtime) Snapshot(ctx context.Context, th Thread) (Snapshot, error) {
	if err := rt.StandsBy(); err != nil {
		return Snapshot{}, err
	}
	t := rt.logs.Hold(th.Key, th.ID)
	defer t.Release()
	s, err := rt.work.Snapshot(ctx, t)
	return s, unavailable(model.Gone(err, ErrThreadNotFound))
}

// RunSnapshot returns the thread as the run's latest span left it. Of a run that has not started yet it
// returns one without anything.
func (rt *Runtime) RunSnapshot(ctx context.Context, th Thread, run Run) (RunSnapshot, error) {
	if err := rt.StandsBy(); err != nil {
		return RunSnapshot{}, err
	}
	t := rt.logs.Hold(th.Key, th.ID)
	defer t.Release()
	s, err := rt.work.RunSnapshot(ctx, t, &run)
	return s, unavailable(model.Gone(err, ErrThreadNotFound))
}

// RunEvents returns up to limit of the run's events behind the one with the id after, those that admit holds
// true for, fewer when they are large, and whether another such event is stored behind them. It fails for a cursor
// beyond the end of the thread's log.
func (rt *Runtime) RunEvents(ctx context.Context, th Thread, run Run, after int64, limit int, admit func(*Record) bool) (recs []*Record, more bool, err error) {
	recs, more, err = rt.logs.RunEvents(ctx, &th.ThreadHead, run.Key, after, limit, admit)
	return recs, more, unavailable(model.Gone(err, ErrThreadNotFound))
}
