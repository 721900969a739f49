package exec

import (
	"context"
	"sync"
	"time"
)

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

// withTimeout returns a context that is cancelled with errTimeout after a time in which its clock runs.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &clock{left: limit, started: time.Now(), timer: time.AfterFunc(limit, func() { cancel(errTimeout) })}
	return context.WithValue(ctx, clockKey{}, c), func() {
		c.timer.Stop()
		cancel(nil)
	}
}

// stopClock stops the clock of ctx until the returned function is called.
func stopClock(ctx context.Context) (start func()) {
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
