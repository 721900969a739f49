package exec

import (
	"context"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// An instance of a cluster that stops hands its runs over: each worker waits at its next record, and once nothing else of the run is
// under way, the run is released for another instance, which calls the worker again with its records.

// maxReleases is how often a run is handed over without a new record in between. Then it stays until Config.Drain has passed, so that
// servers which stop one after the other do not starve it.
const maxReleases = 5

// pass is called where a worker begins to make a record, or has made one. It returns nil unless the run is handed over: then it waits
// for that, and the worker gets nothing from the record. The clock of the worker's step stands still meanwhile.
func (s *step) pass(ctx context.Context) error {
	l := s.l
	if !l.cfg.Engine.HandsOver(l) || s.isInside(ctx) {
		return nil
	}
	l.out.mu.Lock()
	if l.out.span.Gate() != nil || l.out.released >= maxReleases || l.out.speaks() {
		l.out.mu.Unlock()
		return nil
	}
	l.out.atRecord = true
	l.out.mu.Unlock()
	defer calls.StopClock(s.w.Ctx)()
	l.handOver()
	<-l.ctx.Done()
	return context.Cause(l.ctx)
}

// isInside reports whether ctx is of the function of a Do of the step, or of one that the step works for.
func (s *step) isInside(ctx context.Context) bool {
	for p := s.w; p != nil; p = p.Parent {
		if ctx.Value(doingKey{p}) != nil {
			return true
		}
	}
	return false
}

// work changes the number of Dos with a running function, or a result that is not stored yet.
func (l *Live) work(n int) {
	l.out.mu.Lock()
	l.out.working += n
	l.out.mu.Unlock()
	if n < 0 {
		l.handOver()
	}
}

// Release releases the run, if it is not ending already, and writes nothing to its log: it goes on at the next start.
func (l *Live) Release() { l.release(true) }

// handOver releases the run if a worker waits at a record and nothing is under way that another instance would repeat or fail.
func (l *Live) handOver() { l.release(false) }

func (l *Live) release(anyway bool) {
	l.out.mu.Lock()
	due := (anyway || l.out.atRecord && l.out.working == 0 && !l.out.speaks() && !l.out.calling()) && l.out.shut(plugins.ErrStopping)
	if due {
		l.cfg.Counts.Released.Add(1)
		l.out.mark = data.ReleasedBy(l.cfg.Instance, l.cfg.Counts.Marks.Add(1), l.out.released+1)
	}
	l.out.mu.Unlock()
	if due {
		l.log().Info("run is released", "agent", l.run.WorkflowID)
		l.cancel(plugins.ErrStopping)
	}
}

// writeRelease queues the release of a run that was released, once. Its workers have returned or were abandoned, because another instance
// may call them at once.
func (l *Live) writeRelease() {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.mark == "" {
		return
	}
	it := l.out.item()
	c := &decide.Release{Thread: l.t.Key(), Run: l.run.Key, Instance: l.cfg.Instance, Mark: l.out.mark, ActiveMs: l.out.active(), Waits: l.out.waits}
	if p := l.out.parked; p != nil {
		it.Records, it.Bytes, c.Rows, c.Events = p.Records, sizeOf(p.Events), p.Rows, p.Events
	}
	it.Command = c
	it.Then = func(*decide.Decided) { l.cfg.Engine.Forget(l) }
	l.out.mark = ""
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
