package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/calls"
	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
)

// A worker that waits for a time or an event returns, and its node rests until then. Once nothing else of the run can go on, the run is parked: it is
// released like one that is handed over, and its row says when it goes on.

const (
	// shortWait is the longest wait in which a worker stays at work.
	shortWait = 2 * time.Second
	// mostNames limits the events for which a step waits at a time.
	mostNames = 1000
)

// now returns the database's time, as far as the run's claim has shown it.
func (w *writer) now() time.Time { return w.run.ClaimedAt.Add(time.Since(w.began)) }

// active returns how long the run's generation was at work, in milliseconds.
func (w *writer) active() int64 { return w.run.ActiveMs + time.Since(w.began).Milliseconds() }

// Wait returns when the event or the time of the wait has come. It records a longer wait and returns plugins.ErrWaiting.
func (s *step) Wait(ctx context.Context, u plugins.Use, wait plugins.Wait) (got plugins.Received, err error) {
	m, err := s.em.memo(u)
	if err != nil {
		return got, err
	}
	if m.Done {
		if wait.Event != "" {
			err = json.Unmarshal(m.Output, &got)
		}
		return got, err
	}
	if err := s.pass(ctx); err != nil {
		return got, err
	}
	var until time.Time
	if m.Output != nil {
		err = json.Unmarshal(m.Output, &until)
	} else if until, err = s.em.out.until(wait); err == nil {
		m.Output = data.MustJSON(until)
		err = s.em.put([]data.Row{new(*m)}, nil)
	}
	if err != nil {
		return got, err
	}
	seen := s.l.signals.Load()
	received, err := s.receive(ctx, m, wait.Event, &got)
	if err != nil || received {
		return got, err
	}
	left := until.Sub(s.em.out.now())
	if left >= shortWait {
		return got, s.em.nap(wait.Event, until, seen)
	}
	if err := idle(ctx, s.w.Ctx, left); err != nil {
		return got, err
	}
	if received, err := s.receive(ctx, m, wait.Event, &got); err != nil || received {
		return got, err
	}
	if wait.Event == "" {
		m.Done = true
		return got, s.em.put([]data.Row{m}, nil)
	}
	got.Expired = true
	return got, s.em.record(m, data.MustJSON(got), nil)
}

// receive takes the run's first signal of a name, if there is one, for the wait of m. It returns when that is stored.
func (s *step) receive(ctx context.Context, m *data.Memo, name string, got *plugins.Received) (bool, error) {
	w := s.em.out
	for name != "" {
		w.mu.Lock()
		after := w.took[name]
		w.mu.Unlock()
		sig, err := commit.RetryUnavailable(ctx, func() (data.Signal, error) { return w.cfg.Signal(ctx, w.run.Key, name, after) })
		if errors.Is(err, data.ErrNotFound) {
			break
		}
		if err != nil {
			return false, err
		}
		w.source.Room()
		w.mu.Lock()
		if sig.N <= w.took[name] { // another branch has taken it meanwhile
			w.mu.Unlock()
			continue
		}
		m.Done, m.Output = true, data.MustJSON(plugins.Received{Payload: sig.Payload})
		if err := json.Unmarshal(m.Output, got); err != nil { // as a replay reads it
			w.mu.Unlock()
			return false, err
		}
		return true, wait(func(done func(error)) error {
			defer w.mu.Unlock()
			err := w.queue(&s.em, []data.Row{new(*m), &data.TakenSignals{RunKey: w.run.Key, From: sig.N, To: sig.N}}, done)
			if err == nil {
				w.took[name] = sig.N
			}
			return err
		})
	}
	return false, nil
}

// until returns the end of a wait that begins now.
func (w *writer) until(wait plugins.Wait) (time.Time, error) {
	now, until := w.now(), wait.Until
	if until.IsZero() {
		until = now.Add(wait.For)
	}
	if until.Sub(now) > plugins.LongestWait {
		return until, &plugins.Error{Code: "wait_too_long", Message: "A run may wait for 365 days"}
	}
	return until.UTC().Truncate(time.Millisecond), nil
}

// idle waits for a time, in which the clock of the step stands still.
func idle(ctx, step context.Context, d time.Duration) error {
	defer calls.StopClock(step)()
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

// nap is the waits of a step's worker.
type nap struct {
	first  data.Wait // that ends first
	events []string  // the names of the events for which it waits
	seen   int64     // the signals of the run before it has looked for any of them
}

// nap notes a wait of the worker, and returns plugins.ErrWaiting.
func (em *emitter) nap(event string, until time.Time, seen int64) error {
	w := em.out
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.naps[em.w.Step]
	if n == nil {
		n = &nap{seen: seen}
		w.naps[em.w.Step] = n
	}
	wait := data.Wait{Kind: data.WaitTime, Until: until}
	if event != "" {
		wait.Kind, wait.Name = data.WaitEvent, event
		if !slices.Contains(n.events, event) {
			n.events = append(n.events, event)
		}
		if n.seen = min(n.seen, seen); len(n.events) > mostNames {
			return &plugins.Error{Code: "too_many_waits", Message: fmt.Sprintf("A worker may wait for %d events at a time", mostNames)}
		}
	}
	if n.first.Until.IsZero() || until.Before(n.first.Until) {
		n.first = wait
	}
	return plugins.ErrWaiting
}

// resting is a node with a worker that waits for a time or an event.
type resting struct {
	x *execution
	*nap
}

// rest closes, in it, the open messages and calls of the worker, so that it can be called again with its records. out.mu is held.
func (x *execution) rest(it *commit.Item) {
	x.l.out.nodes.Wait(x.st)
	it.Rows = append(it.Rows, x.l.out.nodes.Rows(x.st)...)
	if err := (&repair{l: x.l, it: it, em: &x.s.em}).interrupt(); err != nil {
		x.l.log().Error("step could not be interrupted", "error", err)
	}
	x.l.cfg.Commits.Add(it)
}

// due removes and returns the nodes whose time has come, and those that wait for an event and were signalled.
func due(l *Live, list []resting) (left []resting, ready []*execution) {
	now, signals := l.out.now(), l.signals.Load()
	for _, r := range list {
		if r.first.Until.After(now) && (len(r.events) == 0 || r.seen == signals) {
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
		w.All, w.Events = append(w.All, r.first), append(w.Events, r.events...)
	}
	slices.Sort(w.Events)
	w.Events = slices.Compact(w.Events)
	slices.SortFunc(w.All, func(a, b data.Wait) int { return a.Until.Compare(b.Until) })
	w.Due, w.All = w.All[0].Until, w.All[:min(len(w.All), data.MostShownWaits)]
	return w
}

// nextDue returns a channel that has a value when the first node's time has come, nil for no nodes.
func nextDue(list []resting, now time.Time) <-chan time.Time {
	if w := waitsOf(list); w != nil {
		return time.After(w.Due.Sub(now))
	}
	return nil
}

// pause ends the run's work: it has completed, waits for an answer, or is parked.
func (l *Live) pause(rests, asleep []resting) {
	w := waitsOf(slices.Concat(rests, asleep))
	l.out.mu.Lock()
	asks := l.out.journal.Asking()
	l.out.mu.Unlock()
	if w != nil && !asks {
		if err := l.park(w); err != nil { // the event exceeds a limit
			l.Settle(FailedWith(l.explain(l.run.WorkflowID, err)))
		}
		return
	}
	l.suspend(rests)
	e := l.out.completed()
	e.waits = w
	l.Settle(e)
}

// suspend ends the open messages and calls of resting nodes, because the span ends.
func (l *Live) suspend(list []resting) {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if len(list) == 0 || l.out.span.Gate() != nil {
		return
	}
	it := l.out.item()
	defer l.cfg.Commits.Add(it)
	for _, r := range list {
		if err := r.x.s.em.closeOpen(it, agui.WorkerOutput{Status: agui.StatusSuccess}, false); err != nil {
			l.log().Error("step could not be closed", "error", err)
		}
	}
}

// park releases the run until its first wait is due. Its span stays open.
func (l *Live) park(waits *data.Waits) error {
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	if l.out.span.Gate() != nil {
		return nil
	}
	it := l.out.item()
	first := &waits.All[0]
	if err := l.out.span.Stage(it, agui.Parked(l.run.WorkflowID, string(first.Kind), first.Name, waits.Due)); err != nil {
		return err
	}
	l.out.shut(plugins.ErrStopping)
	l.log().Info("run is parked", "until", waits.Due)
	l.out.mark, l.out.parked, l.out.waits = data.ReleasedBy(l.cfg.Instance, l.cfg.Counts.Marks.Add(1), 0), it, waits
	return nil
}

// wakes has the nodes that have waited go on, in the item of a takeover. w.mu is held.
func (w *writer) wakes(it *commit.Item) error {
	asks := func(step int) bool { return w.journal.Asks(step) && !w.journal.Rests(step) }
	for _, st := range w.nodes.Rouse(asks) {
		it.Rows = append(it.Rows, w.nodes.Rows(st)...)
	}
	if w.run.Status != data.Queued || w.run.Waits == nil {
		return nil
	}
	return w.span.Stage(it, agui.Woken(w.run.WorkflowID, w.run.Waits.By))
}
