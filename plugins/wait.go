package plugins

import (
	"context"
	"time"
)

// Wait is a wait for a time.
type Wait struct {
	Until time.Time     // zero to wait for For
	For   time.Duration // from the first call on
}

// Sleep waits for a time, which the first call fixes: a replayed worker waits for the rest of it. A wait of two seconds or more does not keep
// the run at work: Sleep returns ErrWaiting, which the worker must return, and once nothing else of the run can go on, the run is parked. It
// is WAITING, its streams stay open, and it has no slot and no memory. When the time has come, the worker is called again from its start with
// its records. No timeout counts the wait. Sleep ends the open message first.
func (r *Run) Sleep(ctx context.Context, d time.Duration) error {
	return r.wait(ctx, Wait{For: max(d, time.Nanosecond)})
}

// SleepUntil is Sleep for a time of the database's clock.
func (r *Run) SleepUntil(ctx context.Context, t time.Time) error {
	return r.wait(ctx, Wait{Until: t})
}

func (r *Run) wait(ctx context.Context, w Wait) error {
	u, _, err := r.use(ctx, r.close, "wait", "", nil)
	if err != nil {
		return err
	}
	return r.noteWaiting(r.host.Wait(ctx, u, w))
}
