package exec

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A worker that waits for a time returns, and its node rests until then. Once all nodes that can go on rest or have ended, the run is parked:
// it is released like a run that is handed over, and its row says when it goes on.

// shortWait is the longest wait in which a worker stays at work.
const shortWait = 2 * time.Second

const longestWait = 365 * 24 * time.Hour

// now returns the database's time, as far as the claim of the run has shown it.
func (l *Live) now() time.Time { return l.run.ClaimedAt.Add(time.Since(l.began)) }

// Wait returns nil when the time of w has come. It records a longer wait and returns plugins.ErrWaiting.
func (s *step) Wait(ctx context.Context, u plugins.Use, w plugins.Wait) error {
	m, err := s.memo(u)
	if err != nil || m.Done {
		return err
	}
	if err := s.pass(ctx); err != nil {
		return err
	}
	l := s.l
	var until time.Time
	if m.Output != nil {
		err = json.Unmarshal(m.Output, &until)
	} else if until, err = l.until(w); err == nil {
		m.Output = data.MustJSON(until)
		err = l.emit(s, []data.Row{new(*m)}, nil)
	}
	if err != nil {
		return err
	}
	left := until.Sub(l.now())
	if left >= shortWait {
		s.restUntil(until)
		return plugins.ErrWaiting
	}
	if err := idle(ctx, s.w.Ctx, left); err != nil {
		return err
	}
	m.Done = true
	return l.emit(s, []data.Row{new(*m)}, nil)
}

// until returns the time of a wait that begins now.
func (l *Live) until(w plugins.Wait) (time.Time, error) {
	until := w.Until
	if until.IsZero() {
		until = l.now().Add(w.For)
	}
	if until.Sub(l.now()) > longestWait {
		return until, &plugins.Error{Code: "wait_too_long", Message: "A run may wait for 365 days"}
	}
	return until.UTC().Truncate(time.Millisecond), nil
}

// idle waits for a time, in which the clock of the step stands still.
func idle(ctx, step context.Context, d time.Duration) error {
	defer stopClock(step)()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-step.Done():
		return context.Cause(step)
	}
}

// restUntil notes the end of a wait of the worker, or of a sub-agent of it.
func (s *step) restUntil(until time.Time) {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	if first, is := s.l.naps[s.w.Step]; !is || until.Before(first) {
		s.l.naps[s.w.Step] = until
	}
}

// resting is a node with a worker that waits for a time.
type resting struct {
	x     *execution
	until time.Time
}

// due removes and returns the nodes whose time has come.
func due(list []resting, now time.Time) (left []resting, ready []*execution) {
	for _, r := range list {
		if r.until.After(now) {
			left = append(left, r)
		} else {
			ready = append(ready, r.x)
		}
	}
	return left, ready
}

// waitsOf returns the waits of nodes, nil for none.
func waitsOf(list []resting) *data.Waits {
	if len(list) == 0 {
		return nil
	}
	w := &data.Waits{}
	for _, r := range list {
		w.All = append(w.All, data.Wait{Kind: data.WaitTime, Until: r.until})
	}
	slices.SortFunc(w.All, func(a, b data.Wait) int { return a.Until.Compare(b.Until) })
	w.Due, w.All = w.All[0].Until, w.All[:min(len(w.All), data.MostShownWaits)]
	return w
}

// suspend ends what the resting nodes have left open, because the span ends.
func (l *Live) suspend(list []resting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span.Gate() != nil {
		return
	}
	it := l.item()
	defer l.cfg.Commits.Add(it)
	for _, r := range list {
		if err := r.x.s.closeOpen(it, agui.WorkerOutput{Status: agui.StatusSuccess}, false); err != nil {
			l.log().Error("step could not be closed", "error", err)
		}
	}
}

// park releases the run until its first wait is due. Its span stays open.
func (l *Live) park(w *data.Waits) {
	l.mu.Lock()
	parks := l.span.Gate() == nil
	if parks {
		it := l.item()
		err := l.span.Stage(it, agui.Parked(l.run.WorkflowID, string(w.All[0].Kind), w.Due))
		l.cfg.Commits.Add(it)
		parks = l.shut(cmp.Or(err, plugins.ErrStopping))
		l.mark, l.waits = data.ReleasedBy(l.cfg.Instance, l.cfg.Counts.marks.Add(1), 0), w
	}
	l.mu.Unlock()
	if parks {
		l.log().Info("run is parked", "agent", l.run.WorkflowID, "until", w.Due)
		l.cancel(plugins.ErrStopping)
	}
}

// wakes has the nodes that have waited go on, in the item of a takeover.
func (l *Live) wakes(it *commit.Item) error {
	for _, st := range l.nodes.Rouse(l.journal.Asks) {
		it.Rows = append(it.Rows, l.nodes.Rows(st)...)
	}
	if l.run.Status != data.Queued || l.run.Waits == nil {
		return nil
	}
	return l.span.Stage(it, agui.Woken(l.run.WorkflowID, string(l.run.Waits.All[0].Kind)))
}

// nextDue returns a channel that has a value when the first node's time has come, nil for no nodes.
func (l *Live) nextDue(list []resting) <-chan time.Time {
	w := waitsOf(list)
	if w == nil {
		return nil
	}
	return time.After(w.Due.Sub(l.now()))
}

// pause ends the run's work: it has completed, waits for an answer, or is parked.
func (l *Live) pause(list []resting) {
	w := waitsOf(list)
	l.mu.Lock()
	asks := l.journal.Asking()
	l.mu.Unlock()
	if w != nil && !asks {
		l.park(w)
		return
	}
	l.suspend(list)
	e := l.completed()
	e.waits = w
	l.Settle(e)
}
