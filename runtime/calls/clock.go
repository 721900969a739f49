package calls

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ErrTimeout is the error of a call that has not returned in time.
var ErrTimeout = fmt.Errorf("timed out: %w", context.DeadlineExceeded)

// clock ends the context of an execution at its timeout. It stands still while a call of the execution waits for a
// provider's pace.
type clock struct {
	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	left    time.Duration // when it was last stopped or started
	started time.Time
	stopped int // calls that wait
}

type clockKey struct{}

// WithTimeout returns a context that is cancelled with ErrTimeout after a time in which its clock runs.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &clock{left: limit, started: time.Now(), timer: time.AfterFunc(limit, func() { cancel(ErrTimeout) })}
	return context.WithValue(ctx, clockKey{}, c), func() {
		c.timer.Stop()
		cancel(nil)
	}
}

// StopClock stops the clock of ctx until the returned function is called.
func StopClock(ctx context.Context) (start func()) {
	c, ok := ctx.Value(clockKey{}).(*clock)
	if !ok {
		return func() {}
	}
	c.add(1)
	return func() { c.add(-1) }
}

// add changes the number of calls that wait.
func (c *clock) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.stopped
	c.stopped += n
	switch {
	case was == 0:
		c.timer.Stop()
		c.left -= time.Since(c.started)
	case c.stopped == 0:
		c.started = time.Now()
		c.timer.Reset(c.left)
	}
}
