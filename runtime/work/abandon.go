package work

import (
	"sync/atomic"
	"time"
)

// abandonments counts workers and tools that ignore that their context is done.
type abandonments struct {
	agents, tools atomic.Int64 // abandoned so far
	lingering     atomic.Int64 // of these, those that have not returned
}

// errand is a call of a plugin's code on a goroutine of its own, which nobody can end.
type errand struct {
	kind, name string
	began      time.Time
	abandoned  bool // guarded by live.mu
}

// send calls f, of the worker or tool of that name, on a goroutine that the run accounts for.
func (l *live) send(kind, name string, f func()) *errand {
	e := &errand{kind: kind, name: name, began: time.Now()}
	l.mu.Lock()
	l.errands[e] = struct{}{}
	l.mu.Unlock()
	l.spawn(func() {
		defer l.returned(e)
		f()
	})
	return e
}

// returned is called when an errand has.
func (l *live) returned(e *errand) {
	l.mu.Lock()
	delete(l.errands, e)
	late := e.abandoned
	l.mu.Unlock()
	if late {
		l.en.abandonments.lingering.Add(-1)
		l.log().Info("what was abandoned has returned", e.kind, e.name, "took", time.Since(e.began).Round(time.Millisecond).String())
	}
}

// abandon says that nobody waits for an errand any more. It keeps the run's slot until it returns.
func (l *live) abandon(e *errand) {
	l.mu.Lock()
	_, there := l.errands[e]
	first := there && !e.abandoned
	e.abandoned = true
	l.mu.Unlock()
	if !first {
		return
	}
	l.en.abandonments.lingering.Add(1)
	if e.kind == aTool {
		l.en.abandonments.tools.Add(1)
	} else {
		l.en.abandonments.agents.Add(1)
	}
	l.log().Warn("what ignores its context is abandoned", e.kind, e.name, "after", time.Since(e.began).Round(time.Millisecond).String())
}

// The kinds of errands.
const (
	aWorker = "agent"
	aTool   = "tool"
)

// abandonAll says that nobody waits for any errand of the run any more.
func (l *live) abandonAll() {
	l.mu.Lock()
	left := make([]*errand, 0, len(l.errands))
	for e := range l.errands {
		left = append(left, e)
	}
	l.mu.Unlock()
	for _, e := range left {
		l.abandon(e)
	}
}
