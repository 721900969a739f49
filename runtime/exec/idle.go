package exec

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/journal"
	"github.com/batonrun/baton/runtime/queue"
)

// rests knows when all nodes of a run rest: each has calls of tools or models, and all of them are idle. The run lends its slot then. A
// worker that works beside its idle calls is not noticed.
type rests struct {
	mu    sync.Mutex    // guards the fields below, and the slot of the run's reservation
	nodes map[int]*uses // by the number of the step
	lent  bool
	since time.Time    // when the slot was lent, or is wanted back
	paces []*time.Time // until when calls wait for a provider's pace, zero for unknown

	taking chan struct{}      // closed once the call that takes a slot again is done with it; nil for none
	stop   context.CancelFunc // ends its wait
}

// uses counts the running calls of tools of a node.
type uses struct{ calls, idle int }

// enterNode records that a node executes, and leaveNode that it has ended.
func (l *Live) enterNode(number int) {
	l.rests.mu.Lock()
	defer l.rests.mu.Unlock()
	l.rests.nodes[number] = new(uses)
	l.lend()
}

func (l *Live) leaveNode(number int) {
	l.rests.mu.Lock()
	defer l.rests.mu.Unlock()
	delete(l.rests.nodes, number)
	l.lend()
}

// use changes the numbers of running and idle calls of a node, which may have ended without an abandoned call.
func (l *Live) use(number, calls, idle int) {
	l.rests.mu.Lock()
	defer l.rests.mu.Unlock()
	if u := l.rests.nodes[number]; u != nil {
		u.calls, u.idle = u.calls+calls, u.idle+idle
	}
	l.lend()
}

// lend gives the run's slot to others while all nodes rest. A node that begins to work meanwhile exceeds the limit, which saves a
// second queue. rests.mu is held.
func (l *Live) lend() {
	r := &l.rests
	rest := len(r.nodes) > 0
	for _, u := range r.nodes {
		rest = rest && u.idle > 0 && u.idle == u.calls
	}
	switch {
	case rest && !r.lent:
		r.lent, r.since = true, time.Now()
		l.reserved.Slot.Release()
		l.cfg.Queue.Freed()
	case !rest && r.lent:
		r.lent = false
		l.reserved.Slot.Force(1)
		if r.taking != nil {
			r.stop()
		}
	}
}

// retake waits for a slot if the run has lent its own. One call takes it for all that return meanwhile.
func (l *Live) retake(ctx context.Context) {
	r := &l.rests
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.lent && ctx.Err() == nil {
		if taken := r.taking; taken != nil {
			r.mu.Unlock()
			select {
			case <-taken:
			case <-ctx.Done():
			}
			r.mu.Lock()
			continue
		}
		take, stop := context.WithCancel(ctx)
		r.taking, r.stop, r.since = make(chan struct{}), stop, time.Now()
		r.mu.Unlock()
		slot, err := l.reserved.TakeSlot(take)
		r.mu.Lock()
		if err == nil && r.lent {
			l.reserved.Slot, r.lent = slot, false
		} else {
			slot.Release()
			l.cfg.Queue.Freed()
		}
		stop()
		close(r.taking)
		r.taking = nil
	}
}

// WaitOf returns why an executing run has no slot, or nil.
func (l *Live) WaitOf() *queue.Wait {
	r := &l.rests
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &queue.Wait{Since: r.since}
	switch {
	case !r.lent:
		return nil
	case r.taking != nil:
		w.Reason = l.reserved.WhyNoSlot()
	case len(r.paces) > 0:
		w.Reason = "provider_pace"
		for _, until := range r.paces {
			if w.Until.IsZero() || !until.IsZero() && until.Before(w.Until) {
				w.Until = *until
			}
		}
	}
	if w.Reason == "" {
		return nil
	}
	return w
}

// idle is a tool's Idle.
func (c *toolCall) idle(ctx context.Context, wait func() error) error {
	return c.s.rest(ctx, 0, wait)
}

// Idle implements host.Idler.
func (s *step) Idle(ctx context.Context, wait func() error) error { return s.rest(ctx, 1, wait) }

// WaitForPace implements host.Idler.
func (s *step) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	defer stopClock(ctx)()
	defer s.l.pace(&until)()
	return s.Idle(ctx, wait)
}

// pace records that a call waits for a provider's pace, until the returned function is called.
func (l *Live) pace(until *time.Time) (end func()) {
	l.rests.mu.Lock()
	defer l.rests.mu.Unlock()
	l.rests.paces = append(l.rests.paces, until)
	return func() {
		l.rests.mu.Lock()
		defer l.rests.mu.Unlock()
		l.rests.paces = slices.DeleteFunc(l.rests.paces, func(p *time.Time) bool { return p == until })
	}
}

// rest runs a wait of a call that is counted already, or of one more.
func (s *step) rest(ctx context.Context, more int, wait func() error) error {
	s.l.use(s.w.Step, more, 1)
	defer s.l.use(s.w.Step, -more, -1)
	defer s.l.retake(ctx) // also after a panic
	return wait()
}

// keep is a tool's Keep.
func (c *toolCall) keep(value json.RawMessage) error {
	m, err := c.s.memo(plugins.Use{Place: c.u.Inside(journal.KeptPlace)})
	if err != nil {
		return err
	}
	if value == nil {
		value = json.RawMessage("null")
	}
	return c.s.record(m, value, nil)
}

// kept returns the value that the call at a place in a step has stored, or nil.
func (l *Live) kept(step int, call plugins.Use) json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Kept(step, call)
}
