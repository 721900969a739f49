// Package calls has the calls of plugin code of a run. One that ignores its context is abandoned. While all calls are idle, the run lends its slot.
package calls

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Counts are of the runs of an engine, since it began.
type Counts struct {
	Released      atomic.Int64 // runs, for other servers
	Marks         atomic.Int64 // of released and of parked runs
	Agents, Tools atomic.Int64 // that ignored their done context and were abandoned
	Lingering     atomic.Int64 // of these, the ones that have not returned yet
}

// Group has a run's calls of plugin code. Each call has its own goroutine and cannot be killed, only abandoned.
type Group struct {
	Counts  *Counts
	Grace   time.Duration
	Log     func() *slog.Logger
	Running sync.WaitGroup // the calls, and the run's other goroutines

	mu   sync.Mutex // guards the fields below, and call.abandoned
	all  map[*call]struct{}
	gone chan struct{} // closed when an abandoned call returns; nil without a reader
}

// call is a call of a worker or a tool.
type call struct {
	kind, name string
	began      time.Time
	abandoned  bool
}

// The kinds of calls.
const (
	Agent = "agent"
	Tool  = "tool"
)

// Do calls f, which belongs to the named worker or tool, on its own goroutine and returns its results. Once ctx is
// done f has the grace to return; then it is abandoned, and the error is ErrTimeout. Once over is done the error is its cause.
func Do[T any](ctx, over context.Context, g *Group, kind, name string, f func() (T, error)) (T, error) {
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	c := &call{kind: kind, name: name, began: time.Now()}
	g.mu.Lock()
	if g.all == nil {
		g.all = make(map[*call]struct{})
	}
	g.all[c] = struct{}{}
	g.mu.Unlock()
	g.Running.Go(func() {
		defer g.returned(c)
		out, err := f()
		done <- result{out, err}
	})
	var none T
	var late <-chan time.Time
	for ended := ctx.Done(); ; {
		select {
		case r := <-done:
			return r.out, r.err
		case <-over.Done():
			return none, context.Cause(over)
		case <-ended:
			t := time.NewTimer(g.Grace)
			defer t.Stop()
			ended, late = nil, t.C
		case <-late:
			g.abandon(c)
			return none, ErrTimeout
		}
	}
}

func (g *Group) returned(c *call) {
	g.mu.Lock()
	delete(g.all, c)
	late := c.abandoned
	if late && g.gone != nil {
		close(g.gone)
		g.gone = nil
	}
	g.mu.Unlock()
	if late {
		g.Counts.Lingering.Add(-1)
		g.Log().Info("what was abandoned has returned", c.kind, c.name, "took", time.Since(c.began).Round(time.Millisecond).String())
	}
}

// abandon marks a call that the run no longer waits for. The call keeps the run's slot until it returns.
func (g *Group) abandon(c *call) {
	g.mu.Lock()
	_, there := g.all[c]
	first := there && !c.abandoned
	c.abandoned = true
	g.mu.Unlock()
	if !first {
		return
	}
	g.Counts.Lingering.Add(1)
	if c.kind == Tool {
		g.Counts.Tools.Add(1)
	} else {
		g.Counts.Agents.Add(1)
	}
	g.Log().Warn("what ignores its context is abandoned", c.kind, c.name, "after", time.Since(c.began).Round(time.Millisecond).String(),
		"help", "let it return when its context ends; until then its run keeps its slot")
}

// Linger returns a channel that is closed when an abandoned call returns, nil if there is none.
func (g *Group) Linger() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.all {
		if c.abandoned {
			if g.gone == nil {
				g.gone = make(chan struct{})
			}
			return g.gone
		}
	}
	return nil
}

// AbandonAll abandons all calls of the run.
func (g *Group) AbandonAll() {
	g.mu.Lock()
	left := slices.Collect(maps.Keys(g.all))
	g.mu.Unlock()
	for _, c := range left {
		g.abandon(c)
	}
}

// ErrTimeout is the error of a call that has not returned in time.
var ErrTimeout = fmt.Errorf("timed out: %w", context.DeadlineExceeded)

// clock ends the context of an execution at its timeout. It stands still while a call of the execution waits for a provider's pace.
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

// MaxDepth is how deep agents are nested in each other.
const MaxDepth = 8

// Places limits the calls of a run's agents at once, by their depth: an agent has its place while it waits for one at the next depth only.
type Places struct {
	Most int64

	mu     sync.Mutex // guards depths
	depths [MaxDepth + 1]*semaphore.Weighted
}

func (p *Places) at(depth int) *semaphore.Weighted {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &p.depths[depth]
	if *at == nil {
		*at = semaphore.NewWeighted(p.Most)
	}
	return *at
}

// Acquire waits for n places at a depth. It fails with ctx's cause.
func (p *Places) Acquire(ctx context.Context, depth, n int) error {
	if p.at(depth).Acquire(ctx, int64(n)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Release releases n places at a depth.
func (p *Places) Release(depth, n int) { p.at(depth).Release(int64(n)) }
