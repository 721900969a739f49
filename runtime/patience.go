package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/batonrun/baton/runtime/model"
)

// patiently makes a read that a run depends on, again while the database is away: whoever owns a run waits for its
// database, as its commits do. It gives up when ctx is done, with ctx's cause.
func patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval, pause.Multiplier = time.Millisecond, 500*time.Millisecond, 2
	slow := 0
	return backoff.Retry(ctx, func() (T, error) {
		v, err := read()
		if errors.Is(err, model.ErrTooSlow) {
			slow++
		}
		if err != nil && !errors.Is(err, ErrUnavailable) && (slow == 0 || slow > slowAttempts) {
			err = backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0))
}
