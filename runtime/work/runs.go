package work

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// runs is the set of RUNNING runs of this instance.
type runs struct {
	commits   *commit.Queue
	abandoned <-chan struct{} // see Engine.abandoned
	fenced    chan struct{}
	shared    bool           // other instances write the database too
	executing sync.WaitGroup // goroutines of the runs

	mu   sync.Mutex // guards live
	live map[int64]*live
}

// begin adds a run and executes it.
func (rs *runs) begin(l *live) {
	rs.mu.Lock()
	rs.live[l.run.Key] = l
	rs.mu.Unlock()
	rs.executing.Go(l.loop)
}

// forget removes a run that has ended here.
func (rs *runs) forget(l *live) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.live[l.run.Key] == l {
		delete(rs.live, l.run.Key)
		close(l.over)
		l.reserved.ReleaseMessages()
	}
}

// countRuns returns the number of runs.
func (rs *runs) countRuns() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.live)
}

// liveRun returns the run of a key, or nil.
func (rs *runs) liveRun(key int64) *live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.live[key]
}

// liveOn returns the run on a thread, or nil.
func (rs *runs) liveOn(threadKey int64) *live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, l := range rs.live {
		if l.t.Key() == threadKey {
			return l
		}
	}
	return nil
}

// allLive returns all runs.
func (rs *runs) allLive() []*live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Collect(maps.Values(rs.live))
}

// releaseAll releases the runs and writes nothing to their logs; they go on at the next start.
func (rs *runs) releaseAll() {
	for _, l := range rs.allLive() {
		l.mu.Lock()
		released := l.release()
		l.mu.Unlock()
		if released {
			l.letGo()
		}
	}
}

// release shuts the gate of a run that is to be released. It reports false for a run that is already ending. The caller then calls
// letGo. l.mu is held.
func (l *live) release() bool {
	if !l.shut(plugins.ErrStopping) {
		return false
	}
	l.mark = data.ReleasedBy(l.cfg.Instance, l.cfg.Counts.released.Add(1), l.released+1)
	return true
}

// letGo stops the workers of a run that is released.
func (l *live) letGo() {
	l.log().Info("run is released", "agent", l.run.WorkflowID)
	l.cancel(plugins.ErrStopping)
}

// writeRelease queues the release of a run that was let go, once. Its workers have returned or were abandoned, because another instance
// may call them at once.
func (l *live) writeRelease() {
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

// awaitEnd waits until a run with a shut gate has ended here, in either way.
func (l *live) awaitEnd() error {
	select {
	case <-l.over:
		return nil
	case <-l.cfg.Abandoned.Done():
		return context.Cause(l.cfg.Abandoned)
	}
}

// LastEvent returns the id, type and time of the last event of a run that this instance executes. It reports false when
// these are not in memory, or the event is not stored yet.
func (rs *runs) LastEvent(runKey int64) (id int64, kind agui.Type, at time.Time, ok bool) {
	l := rs.liveRun(runKey)
	if l == nil {
		return 0, "", time.Time{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id, kind, at = l.span.LastEvent()
	return id, kind, at, kind != "" && l.t.Committed() >= id
}

// Stopping reports whether Shutdown was called.
func (en *Engine) Stopping() bool { return en.stopping.Load() }
