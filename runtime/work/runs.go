package work

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/exec"
)

// runs is the set of RUNNING runs of this instance.
type runs struct {
	executing sync.WaitGroup // goroutines of the runs

	mu   sync.Mutex // guards live
	live map[int64]*exec.Live
}

func (rs *runs) begin(l *exec.Live) {
	rs.mu.Lock()
	rs.live[l.Head().Key] = l
	rs.mu.Unlock()
	rs.executing.Go(l.Execute)
}

func (rs *runs) forget(l *exec.Live) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.live[l.Head().Key] == l {
		delete(rs.live, l.Head().Key)
		l.Over()
	}
}

func (rs *runs) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.live)
}

// of returns the run of a key, or nil.
func (rs *runs) of(key int64) *exec.Live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.live[key]
}

// on returns the run on a thread, or nil.
func (rs *runs) on(threadKey int64) *exec.Live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, l := range rs.live {
		if l.Head().ThreadKey == threadKey {
			return l
		}
	}
	return nil
}

func (rs *runs) all() []*exec.Live {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Collect(maps.Values(rs.live))
}

// LastEvent returns the id, type and time of the last event of a run that this instance executes. It reports false when
// these are not in memory, or the event is not stored yet.
func (en *Engine) LastEvent(runKey int64) (id int64, kind agui.Type, at time.Time, ok bool) {
	if l := en.runs.of(runKey); l != nil {
		return l.LastEvent()
	}
	return id, kind, at, false
}

// Stopping reports whether Shutdown was called.
func (en *Engine) Stopping() bool { return en.stopping.Load() }

// drainEach is the pause between two checks of whether a stopping instance has drained.
const drainEach = 50 * time.Millisecond

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
	en.Fleet.Expect() // watch has ended
	tick := time.NewTicker(drainEach)
	defer tick.Stop()
	for asked := (time.Time{}); ctx.Err() == nil; {
		if time.Since(asked) >= watchEach {
			asked = time.Now()
			err := en.Fleet.Meet(ctx)
			successor, failed := en.store.Members().Drain(ctx)
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
