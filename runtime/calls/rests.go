package calls

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime/queue"
)

// Rests knows when all nodes of a run rest: each has calls of tools or models, and all of them are idle. The run lends its slot then. A
// worker that works beside its idle calls is not noticed.
type Rests struct {
	Queue    *queue.Queue
	Reserved *queue.Reservation // nil for a run that is not executed

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

// Enter records that a node executes.
func (r *Rests) Enter(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = make(map[int]*uses)
	}
	r.nodes[number] = new(uses)
	r.lend()
}

// Leave records that a node has ended.
func (r *Rests) Leave(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, number)
	r.lend()
}

// Use changes the numbers of running and idle calls of a node, which may have ended without an abandoned call.
func (r *Rests) Use(number, calls, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.nodes[number]; u != nil {
		u.calls, u.idle = u.calls+calls, u.idle+idle
	}
	r.lend()
}

// lend gives the run's slot to others while all nodes rest. A node that begins to work meanwhile exceeds the limit, which saves a
// second queue. r.mu is held.
func (r *Rests) lend() {
	rest := len(r.nodes) > 0
	for _, u := range r.nodes {
		rest = rest && u.idle > 0 && u.idle == u.calls
	}
	switch {
	case rest && !r.lent:
		r.lent, r.since = true, time.Now()
		r.Reserved.Slot.Release()
		r.Queue.Freed()
	case !rest && r.lent:
		r.lent = false
		r.Reserved.Slot.Force(1)
		if r.taking != nil {
			r.stop()
		}
	}
}

// retake waits for a slot if the run has lent its own. One call takes it for all that return meanwhile.
func (r *Rests) retake(ctx context.Context) {
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
		slot, err := r.Reserved.TakeSlot(take)
		r.mu.Lock()
		if err == nil && r.lent {
			r.Reserved.Slot, r.lent = slot, false
		} else {
			slot.Release()
			r.Queue.Freed()
		}
		stop()
		close(r.taking)
		r.taking = nil
	}
}

// Wait returns why the run has no slot, or nil.
func (r *Rests) Wait() *queue.Wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &queue.Wait{Since: r.since}
	switch {
	case !r.lent:
		return nil
	case r.taking != nil:
		w.Reason = r.Reserved.WhyNoSlot()
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

// Pace records that a call waits for a provider's pace, until the returned function is called.
func (r *Rests) Pace(until *time.Time) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paces = append(r.paces, until)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.paces = slices.DeleteFunc(r.paces, func(p *time.Time) bool { return p == until })
	}
}

// Idle runs a wait of a node's call that is counted already, or of one more.
func (r *Rests) Idle(ctx context.Context, number, more int, wait func() error) error {
	r.Use(number, more, 1)
	defer r.Use(number, -more, -1)
	defer r.retake(ctx) // also after a panic
	return wait()
}
