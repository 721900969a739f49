package commit

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// RetryUnavailable makes a read that a run depends on, and repeats it while the database is unavailable: the owner of a run waits
// for its database, as its commits do. It gives up when ctx is done, with ctx's cause, and at damage, which does not pass.
func RetryUnavailable[T any](ctx context.Context, read func() (T, error)) (T, error) {
	slow := 0
	for attempt := 0; ; attempt++ {
		v, err := read()
		switch {
		case err == nil:
			return v, nil
		case ctx.Err() != nil: // the read's error is only that it was cut off
			return v, context.Cause(ctx)
		case errors.Is(err, data.ErrUnavailable) && !errors.Is(err, data.ErrDamaged):
		case errors.Is(err, data.ErrTooSlow) && slow < slowAttempts:
			slow++
		default:
			return v, err
		}
		Pause(ctx, attempt)
		if ctx.Err() != nil {
			return v, context.Cause(ctx)
		}
	}
}

// Pause waits before the next attempt: each time about twice as long, up to half a second, so that the database is not
// overloaded. It ends when ctx is done.
func Pause(ctx context.Context, attempt int) {
	d := min(time.Millisecond<<min(attempt, 9), 500*time.Millisecond)
	t := time.NewTimer(Spread(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Spread varies d by up to half of it, so that the callers of one failure do not all retry at once. The last digits of the
// clock are random enough, and a test with its own clock can repeat them.
func Spread(d time.Duration) time.Duration {
	return d/2 + time.Duration(time.Now().UnixNano())%max(d, 1)
}
