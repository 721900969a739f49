package commit

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/batonrun/baton/runtime/model"
)

// Patiently makes a read that a run depends on, and repeats it while the database is unavailable: the owner of a run waits
// for its database, as its commits do. It gives up when ctx is done, with ctx's cause.
func Patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	slow := 0
	return backoff.Retry(ctx, func() (T, error) {
		v, err := read()
		switch {
		case err == nil, errors.Is(err, model.ErrUnavailable):
			return v, err
		case errors.Is(err, model.ErrTooSlow) && slow < slowAttempts:
			slow++
			return v, err
		}
		return v, backoff.Permanent(err)
	}, backoff.WithBackOff(Pauses(time.Millisecond, 500*time.Millisecond)), backoff.WithMaxElapsedTime(0))
}

// Pause waits before the next attempt, about half a second after many attempts, so that the database is not overloaded. It
// ends when ctx is done.
func Pause(ctx context.Context, attempt int) {
	d := min(time.Millisecond<<min(attempt, 9), 500*time.Millisecond)
	t := time.NewTimer(spread(d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Pauses returns the pauses between attempts, each about twice as long as the one before, up to the longest.
func Pauses(first, longest time.Duration) backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = first, longest, 2, 0
	return spreading{b}
}

type spreading struct{ backoff.BackOff }

func (s spreading) NextBackOff() time.Duration { return spread(s.BackOff.NextBackOff()) }

// spread varies d by up to half of it, so that the callers of one failure do not all retry at once. The last digits of the
// clock are random enough, and a test with its own clock can repeat them.
func spread(d time.Duration) time.Duration {
	return d/2 + time.Duration(time.Now().UnixNano())%max(d, 1)
}
