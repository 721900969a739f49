package exec

import (
	"fmt"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A worker that returns plugins.Interrupted is called again as after a crash of the server, but alone: the other workers of its run go on.

// interrupt closes what a worker has left open, so that it can be called again with its records. It fails if the run has ended, or has
// crashed too often.
func (s *step) interrupt(why *plugins.Interrupted) error {
	l := s.l
	l.source.Room()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.span.Closed(&s.w); err != nil {
		return err
	}
	s.takeHeld() // as after a crash: what they end is repeated
	s.w.Ended = true
	l.turn.Broadcast()
	it := l.item()
	defer l.cfg.Commits.Add(it) // numbered events are written, also before one that is refused
	if err := l.crash(it, s.w.Agent, why); err != nil {
		return err
	}
	it.Rows = append(it.Rows, l.takeOwed()...)
	return (&repair{l: l, it: it, s: s}).interrupt()
}

// crash counts the interruption of a worker or a tool. It fails once the run has crashed too often. l.mu is held.
func (l *Live) crash(it *commit.Item, plugin string, why *plugins.Interrupted) error {
	l.interruptions++
	if why.Counts {
		l.run.Attempt++
		it.Rows = append(it.Rows, &data.RunCrashes{Key: l.run.Key, Attempt: l.run.Attempt})
	}
	if l.run.Attempt > l.cfg.MaxAttempts {
		l.log().Warn("run is given up", "plugin", plugin, "reason", why.Reason, "attempt", l.run.Attempt)
		return crashLoop(l.run.Attempt)
	}
	l.log().Warn("worker is called again", "plugin", plugin, "reason", why.Reason, "attempt", l.run.Attempt)
	return nil
}

func crashLoop(attempts int) *plugins.Error {
	return &plugins.Error{Code: "crash_loop", Message: fmt.Sprintf("The run was given up after %d crashes", attempts)}
}

// interruptedBefore returns how often workers of the run were interrupted since its last record.
func (l *Live) interruptedBefore() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.interruptions
}

// again counts the interruption of the call's tool, and reports whether the tool is called again.
func (c *toolCall) again(info *plugins.Info, why *plugins.Interrupted) bool {
	l := c.s.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span.Gate() != nil || !info.Idempotent && (c.guard || !l.isRepeatable(c.m)) {
		return false
	}
	it := l.item()
	defer l.cfg.Commits.Add(it)
	return l.crash(it, info.Name, why) == nil
}
