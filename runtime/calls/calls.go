// Package calls has the calls of plugin code of a run. One that ignores its context is abandoned. While all calls are idle, the run lends its
// slot.
package calls

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Counts are of the runs of an engine, since it began.
type Counts struct {
	Released      atomic.Int64 // runs
	Agents, Tools atomic.Int64 // that ignored their done context and were abandoned
	Lingering     atomic.Int64 // of these, the ones that have not returned yet
}

// Group has a run's calls of plugin code. Each call has its own goroutine and cannot be killed, only abandoned.
type Group struct {
	Counts  *Counts
	Grace   time.Duration
	Log     func() *slog.Logger
	Running sync.WaitGroup // the calls, and the run's other goroutines

	mu  sync.Mutex // guards all, and call.abandoned
	all map[*call]struct{}
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

// AbandonAll abandons all calls of the run.
func (g *Group) AbandonAll() {
	g.mu.Lock()
	left := make([]*call, 0, len(g.all))
	for c := range g.all {
		left = append(left, c)
	}
	g.mu.Unlock()
	for _, c := range left {
		g.abandon(c)
	}
}
