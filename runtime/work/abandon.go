package work

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// abandonments counts workers and tools that ignore their done context.
type abandonments struct {
	agents, tools atomic.Int64 // abandoned so far
	lingering     atomic.Int64 // of these, the ones that have not returned yet
}

// errands are a run's calls of plugin code. Each call has its own goroutine and cannot be killed, only abandoned.
type errands struct {
	counts *abandonments
	log    func() *slog.Logger

	mu      sync.Mutex // guards all, and errand.abandoned
	all     map[*errand]struct{}
	workers sync.WaitGroup
}

// errand is a call of plugin code.
type errand struct {
	kind, name string
	began      time.Time
	abandoned  bool
}

// The kinds of errands.
const (
	aWorker = "agent"
	aTool   = "tool"
)

// spawn runs f on a goroutine that wait waits for.
func (es *errands) spawn(f func()) { es.workers.Go(f) }

// wait waits until all goroutines have returned.
func (es *errands) wait() { es.workers.Wait() }

// send calls f, which belongs to the named worker or tool, on its own goroutine.
func (es *errands) send(kind, name string, f func()) *errand {
	e := &errand{kind: kind, name: name, began: time.Now()}
	es.mu.Lock()
	es.all[e] = struct{}{}
	es.mu.Unlock()
	es.spawn(func() {
		defer es.returned(e)
		f()
	})
	return e
}

func (es *errands) returned(e *errand) {
	es.mu.Lock()
	delete(es.all, e)
	late := e.abandoned
	es.mu.Unlock()
	if late {
		es.counts.lingering.Add(-1)
		es.log().Info("what was abandoned has returned", e.kind, e.name, "took", time.Since(e.began).Round(time.Millisecond).String())
	}
}

// abandon marks an errand that the run no longer waits for. The errand keeps the run's slot until it returns.
func (es *errands) abandon(e *errand) {
	es.mu.Lock()
	_, there := es.all[e]
	first := there && !e.abandoned
	e.abandoned = true
	es.mu.Unlock()
	if !first {
		return
	}
	es.counts.lingering.Add(1)
	if e.kind == aTool {
		es.counts.tools.Add(1)
	} else {
		es.counts.agents.Add(1)
	}
	es.log().Warn("what ignores its context is abandoned", e.kind, e.name, "after", time.Since(e.began).Round(time.Millisecond).String())
}

// abandonAll abandons all errands of the run.
func (es *errands) abandonAll() {
	es.mu.Lock()
	left := make([]*errand, 0, len(es.all))
	for e := range es.all {
		left = append(left, e)
	}
	es.mu.Unlock()
	for _, e := range left {
		es.abandon(e)
	}
}
