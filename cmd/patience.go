package cmd

import (
	"context"
	"errors"
	"time"
)

// patience is how long, and how often, a server is asked again that is away.
type patience struct {
	limit time.Duration // from the first failure in a row

	until time.Time     // when the limit has passed; zero while the server is there
	pause time.Duration // before the next time
}

const (
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	quiet      = 10 * time.Second // a stream that has lasted as long says that the server is there, whatever it had to tell
)

// wait waits before a request is made again that failed with err: longer each time, and as long as the server asks. It
// returns err when the server said no, or what it asks for is past the limit.
func (p *patience) wait(ctx context.Context, err error) error {
	var away *awayError
	if !errors.As(err, &away) {
		return err
	}
	now := time.Now()
	if p.until.IsZero() {
		p.until, p.pause = now.Add(p.limit), firstPause
	}
	pause := max(p.pause, away.after)
	if now.Add(pause).After(p.until) {
		return err
	}
	p.pause = min(2*p.pause, mostPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// over notes that the server is there.
func (p *patience) over() { p.until = time.Time{} }

// retry calls fn until the server is there to answer it, or has been away for longer than limit.
func retry(ctx context.Context, limit time.Duration, fn func() error) error {
	for p := (patience{limit: limit}); ; {
		err := fn()
		if err == nil {
			return nil
		}
		if err := p.wait(ctx, err); err != nil {
			return err
		}
	}
}

// awayError says that a server could not be reached, stopped or broke off: the request may be made again.
type awayError struct {
	err   error
	after time.Duration // which the server asks to wait
}

func (e *awayError) Error() string { return e.err.Error() }
func (e *awayError) Unwrap() error { return e.err }
