package cmd

import (
	"context"
	"errors"
	"time"
)

// backoff paces the retries of requests to a server that is unavailable.
type backoff struct {
	limit time.Duration // how long to retry after the first of consecutive failures

	until time.Time     // the end of limit; zero while the server is available
	pause time.Duration // before the next retry
}

const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	quiet      = 10 * time.Second // a stream that lasted longer shows that the server is available, even without events
)

// wait waits before the retry of a request that failed with err: longer each time, and at least as long as the server asks. It
// returns err if that is no unavailableError or the limit would pass.
func (b *backoff) wait(ctx context.Context, err error) error {
	var unavailable *unavailableError
	if !errors.As(err, &unavailable) {
		return err
	}
	now := time.Now()
	if b.until.IsZero() {
		b.until, b.pause = now.Add(b.limit), firstPause
	}
	pause := max(b.pause, unavailable.after)
	if now.Add(pause).After(b.until) {
		return err
	}
	b.pause = min(2*b.pause, mostPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reset notes that the server is available.
func (b *backoff) reset() { b.until = time.Time{} }

// retry calls fn until it succeeds, fails with another error than an unavailableError, or the server was unavailable for limit.
func retry(ctx context.Context, limit time.Duration, fn func() error) error {
	for b := (backoff{limit: limit}); ; {
		err := fn()
		if err == nil {
			return nil
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

// unavailableError means that a server was unreachable, overloaded or stopping: the request may be repeated.
type unavailableError struct {
	err   error
	after time.Duration // the delay that the server asks for
}

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }
