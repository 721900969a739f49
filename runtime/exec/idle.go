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
	queue    *queue.Queue
	reserved *queue.Reservation // nil for a run that is not executed

	mu    sync.Mutex    // guards the fields below, and the slot of the reservation
	nodes map[int]*uses // by the number of the step
	lent  bool
	since time.Time    // when the slot was lent, or is wanted back
	paces []*time.Time // until when calls wait for a provider's pace, zero for unknown

	taking chan struct{}      // closed once the call that takes a slot again is done with it; nil for none
	stop   context.CancelFunc // ends its wait
}

// uses counts the running calls of tools of a node.
type uses struct{ calls, idle int }

// enter records that a node executes, and leave that it has ended.
func (r *rests) enter(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[number] = new(uses)
	r.lend()
}

func (r *rests) leave(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, number)
	r.lend()
}

// use changes the numbers of running and idle calls of a node, which may have ended without an abandoned call.
func (r *rests) use(number, calls, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.nodes[number]; u != nil {
		u.calls, u.idle = u.calls+calls, u.idle+idle
	}
	r.lend()
}

// lend gives the run's slot to others while all nodes rest. A node that begins to work meanwhile exceeds the limit, which saves a
// second queue. r.mu is held.
func (r *rests) lend() {
	rest := len(r.nodes) > 0
	for _, u := range r.nodes {
		rest = rest && u.idle > 0 && u.idle == u.calls
	}
	switch {
	case rest && !r.lent:
		r.lent, r.since = true, time.Now()
		r.reserved.Slot.Release()
		r.queue.Freed()
	case !rest && r.lent:
		r.lent = false
		r.reserved.Slot.Force(1)
		if r.taking != nil {
			r.stop()
		}
	}
}

// retake waits for a slot if the run has lent its own. One call takes it for all that return meanwhile.
func (r *rests) retake(ctx context.Context) {
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
		slot, err := r.reserved.TakeSlot(take)
		r.mu.Lock()
		if err == nil && r.lent {
			r.reserved.Slot, r.lent = slot, false
		} else {
			slot.Release()
			r.queue.Freed()
		}
		stop()
		close(r.taking)
		r.taking = nil
	}
}

func (r *rests) wait() *queue.Wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &queue.Wait{Since: r.since}
	switch {
	case !r.lent:
		return nil
	case r.taking != nil:
		w.Reason = r.reserved.WhyNoSlot()
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

func (c *toolCall) idle(ctx context.Context, wait func() error) error {
	return c.s.rest(ctx, 0, wait)
}

// Idle implements host.Idler.
func (s *step) Idle(ctx context.Context, wait func() error) error { return s.rest(ctx, 1, wait) }

// WaitForPace implements host.Idler.
func (s *step) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	defer stopClock(ctx)()
	defer s.l.rests.pace(&until)()
	return s.Idle(ctx, wait)
}

// pace records that a call waits for a provider's pace, until the returned function is called.
func (r *rests) pace(until *time.Time) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paces = append(r.paces, until)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paces = slices.DeleteFunc(r.paces, func(p *time.Time) bool { return p == until })
	}
}

// rest runs a wait of a call that is counted already, or of one more.
func (s *step) rest(ctx context.Context, more int, wait func() error) error {
	s.l.rests.use(s.w.Step, more, 1)
	defer s.l.rests.use(s.w.Step, -more, -1)
	defer s.l.rests.retake(ctx) // also after a panic
	return wait()
}

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

func (l *Live) kept(step int, call plugins.Use) json.RawMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Kept(step, call)
}
