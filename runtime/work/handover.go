package work

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// An instance of a cluster that stops hands its runs over: each worker waits at its next record, and once nothing else of the run is
// under way, the run is released for another instance, which calls the worker again with its records.

const (
	// maxReleases is how often a run is handed over without a new record in between. Then it stays until Config.Drain has passed, so that
	// servers which stop one after the other do not starve it.
	maxReleases = 5
	// drainEach is the pause between two checks of whether a stopping instance has drained.
	drainEach = 50 * time.Millisecond
)

// drain waits until all runs have ended or are handed over, and the streams of those are over, or until ctx is done. ended is closed
// when no run is left.
func (en *Engine) drain(ctx context.Context, ended <-chan struct{}) {
	if !en.shared || !en.committing.Load() {
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return
	}
	defer en.handing.Store(false)
	en.fleet.Expect() // watch has ended
	tick := time.NewTicker(drainEach)
	defer tick.Stop()
	for asked := (time.Time{}); ctx.Err() == nil; {
		if time.Since(asked) >= watchEach {
			asked = time.Now()
			err := en.fleet.Meet(ctx)
			successor, failed := en.store.Drain(ctx)
			en.logUnshared(errors.Join(err, failed))
			en.handing.Store(successor)
		}
		select {
		case <-ended:
			if !en.handing.Load() || en.shown.Load() == 0 {
				return
			}
		default:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Show counts a stream that shows a run to the client that has started it, until the returned function is called. Shutdown waits for
// such streams once runs are handed over.
func (en *Engine) Show() (end func()) {
	en.shown.Add(1)
	return func() { en.shown.Add(-1) }
}

// pass is called where a worker begins to make a record, or has made one. It returns nil unless the run is handed over: then it waits
// for that, and the worker gets nothing from the record. The clock of the worker's step stands still meanwhile.
func (s *step) pass(ctx context.Context) error {
	l := s.l
	if !l.cfg.Engine.HandsOver(l) || s.isInside(ctx) {
		return nil
	}
	l.mu.Lock()
	if l.span.Gate() != nil || l.released >= maxReleases || l.speaks() {
		l.mu.Unlock()
		return nil
	}
	l.atRecord = true
	l.mu.Unlock()
	defer stopClock(s.w.Ctx)()
	l.handOver()
	<-l.ctx.Done()
	return context.Cause(l.ctx)
}

// isInside reports whether ctx is of the function of a Do of the step, or of one that the step works for.
func (s *step) isInside(ctx context.Context) bool {
	for p := &s.w; p != nil; p = p.Parent {
		if ctx.Value(doingKey{p}) != nil {
			return true
		}
	}
	return false
}

// work changes the number of functions of Dos that are running, or whose results are not stored yet.
func (l *live) work(n int) {
	l.mu.Lock()
	l.working += n
	l.mu.Unlock()
	if n < 0 {
		l.handOver()
	}
}

// handOver releases the run if a worker waits at a record and nothing is under way that another instance would repeat or fail.
func (l *live) handOver() {
	l.mu.Lock()
	due := l.atRecord && l.working == 0 && !l.speaks() && !l.calling() && l.release()
	l.mu.Unlock()
	if due {
		l.letGo()
	}
}

// speaks reports whether a message is open. l.mu is held.
func (l *live) speaks() bool {
	return slices.ContainsFunc(l.span.Ver.Closers(), func(ev agui.Event) bool { return !isOuter(ev) })
}

// calling reports whether a call of a tool has begun, or has no record by which it could go on. l.mu is held.
func (l *live) calling() bool {
	return slices.ContainsFunc(l.span.Ver.Unanswered(), func(id string) bool {
		m := l.journal.Call(id)
		return m == nil || m.Begun
	})
}

// record adds a row of a worker's record or question to an item. Crashes and releases are counted from the last record. l.mu is held.
func (l *live) record(it *commit.Item, row data.Row) {
	m, ok := row.(*data.Memo)
	if ok {
		m.Event = l.span.Last()
	}
	it.Rows = append(it.Rows, l.journal.Add(row))
	if ok && m.Done {
		l.released = 0
		l.progressed(it)
	}
}

// progressed resets the run's count of crashes. l.mu is held.
func (l *live) progressed(it *commit.Item) {
	l.interruptions = 0
	if l.run.Attempt > 0 {
		l.run.Attempt = 0
		it.Rows = append(it.Rows, &data.RunCrashes{Key: l.run.Key})
	}
}
