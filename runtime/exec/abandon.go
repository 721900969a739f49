package exec

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Counts are of the runs of an engine, since it began.
type Counts struct {
	Released      atomic.Int64 // runs that another instance executes
	Agents, Tools atomic.Int64 // that ignored their done context and were abandoned
	Lingering     atomic.Int64 // of these, the ones that have not returned yet

	marks atomic.Int64 // owners that released and parked runs were left with
}

// pluginCalls are a run's calls of plugin code. Each call has its own goroutine and cannot be killed, only abandoned.
type pluginCalls struct {
	counts *Counts
	grace  time.Duration
	log    func() *slog.Logger

	mu      sync.Mutex // guards all, and pluginCall.abandoned
	all     map[*pluginCall]struct{}
	running sync.WaitGroup // the calls, and the run's other goroutines
}

// pluginCall is a call of a worker or a tool.
type pluginCall struct {
	kind, name string
	began      time.Time
	abandoned  bool
}

// The kinds of plugin calls.
const (
	aWorker = "agent"
	aTool   = "tool"
)

// callPlugin calls f, which belongs to the named worker or tool, on its own goroutine and returns its results. Once ctx is
// done f has the grace to return; then it is abandoned, and the error is errTimeout. Once over is done the error is its cause.
func callPlugin[T any](ctx, over context.Context, pc *pluginCalls, kind, name string, f func() (T, error)) (T, error) {
	type result struct {
		out T
		err error
	}
	done := make(chan result, 1)
	call := &pluginCall{kind: kind, name: name, began: time.Now()}
	pc.mu.Lock()
	pc.all[call] = struct{}{}
	pc.mu.Unlock()
	pc.running.Go(func() {
		defer pc.returned(call)
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
			t := time.NewTimer(pc.grace)
			defer t.Stop()
			ended, late = nil, t.C
		case <-late:
			pc.abandon(call)
			return none, errTimeout
		}
	}
}

func (pc *pluginCalls) returned(call *pluginCall) {
	pc.mu.Lock()
	delete(pc.all, call)
	late := call.abandoned
	pc.mu.Unlock()
	if late {
		pc.counts.Lingering.Add(-1)
		pc.log().Info("what was abandoned has returned", call.kind, call.name, "took", time.Since(call.began).Round(time.Millisecond).String())
	}
}

// abandon marks a call that the run no longer waits for. The call keeps the run's slot until it returns.
func (pc *pluginCalls) abandon(call *pluginCall) {
	pc.mu.Lock()
	_, there := pc.all[call]
	first := there && !call.abandoned
	call.abandoned = true
	pc.mu.Unlock()
	if !first {
		return
	}
	pc.counts.Lingering.Add(1)
	if call.kind == aTool {
		pc.counts.Tools.Add(1)
	} else {
		pc.counts.Agents.Add(1)
	}
	pc.log().Warn("what ignores its context is abandoned", call.kind, call.name, "after", time.Since(call.began).Round(time.Millisecond).String(),
		"help", "let it return when its context ends; until then its run keeps its slot")
}

// abandonAll abandons all calls of the run.
func (pc *pluginCalls) abandonAll() {
	pc.mu.Lock()
	left := make([]*pluginCall, 0, len(pc.all))
	for call := range pc.all {
		left = append(left, call)
	}
	pc.mu.Unlock()
	for _, call := range left {
		pc.abandon(call)
	}
}
