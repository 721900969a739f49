package exec

import (
	"context"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// An instance of a cluster that stops hands its runs over: each worker waits at its next record, and once nothing else of the run is
// under way, the run is released for another instance, which calls the worker again with its records.

const (
	// maxReleases is how often a run is handed over without a new record in between. Then it stays until Config.Drain has passed, so that
	// servers which stop one after the other do not starve it.
	maxReleases = 5
)

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
	defer calls.StopClock(s.w.Ctx)()
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

// work changes the number of Dos with a running function, or a result that is not stored yet.
func (l *Live) work(n int) {
	l.mu.Lock()
	l.working += n
	l.mu.Unlock()
	if n < 0 {
		l.handOver()
	}
}

// Release releases the run, if it is not ending already, and writes nothing to its log: it goes on at the next start.
func (l *Live) Release() { l.release(true) }

// handOver releases the run if a worker waits at a record and nothing is under way that another instance would repeat or fail.
func (l *Live) handOver() { l.release(false) }

func (l *Live) release(anyway bool) {
	l.mu.Lock()
	due := (anyway || l.atRecord && l.working == 0 && !l.speaks() && !l.calling()) && l.shut(plugins.ErrStopping)
	if due {
		l.mark = data.ReleasedBy(l.cfg.Instance, l.cfg.Counts.Released.Add(1), l.released+1)
	}
	l.mu.Unlock()
	if due {
		l.log().Info("run is released", "agent", l.run.WorkflowID)
		l.cancel(plugins.ErrStopping)
	}
}

// speaks reports whether a message is open. l.mu is held.
func (l *Live) speaks() bool {
	return slices.ContainsFunc(l.span.Ver.Closers(), func(ev agui.Event) bool { return !isOuter(ev) })
}

// calling reports whether a call of a tool has begun, or has no record by which it could go on. l.mu is held.
func (l *Live) calling() bool {
	return slices.ContainsFunc(l.span.Ver.Unanswered(), func(id string) bool {
		m := l.journal.Call(id)
		return m == nil || m.Begun
	})
}

// record adds a row of a worker's record or question to an item. Crashes and releases are counted from the last record. l.mu is held.
func (l *Live) record(it *commit.Item, row data.Row) {
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
func (l *Live) progressed(it *commit.Item) {
	l.interruptions = 0
	if l.run.Attempt > 0 {
		l.run.Attempt = 0
		it.Rows = append(it.Rows, &data.RunCrashes{Key: l.run.Key})
	}
}

// writeRelease queues the release of a run that was released, once. Its workers have returned or were abandoned, because another instance
// may call them at once.
func (l *Live) writeRelease() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mark == "" {
		return
	}
	it := l.item()
	it.Command = &decide.Release{Thread: l.t.Key(), Run: l.run.Key, Instance: l.cfg.Instance, Mark: l.mark}
	it.Then = func(*decide.Decided) { l.cfg.Engine.Forget(l) }
	l.mark = ""
	l.cfg.Commits.Add(it)
}

// AwaitEnd waits until a run with a shut gate has ended here, in either way.
func (l *Live) AwaitEnd() error {
	select {
	case <-l.over:
		return nil
	case <-l.cfg.Abandoned.Done():
		return context.Cause(l.cfg.Abandoned)
	}
}
