package queue

import (
	"slices"
	"sync"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// looks knows when this instance has to look at the queue, and why rows were left there. The queue itself is in the database.
type looks struct {
	signal chan struct{} // has a value when the queue should look

	mu         sync.Mutex
	due        bool             // there may be a row that can be served
	cancels    bool             // the same of rows to cancel
	looking    bool             // a look is at work, and left is that of the one before
	wrote      bool             // rows were written that others have got no hint of
	fresh      int              // rows to claim that decisions here have written, and no look has considered
	cut        bool             // the last look has not read the rows behind those that were served then
	left       shortages        // of the rows that the last look has left
	orphans    shortages        // of runs that have lost their server and come first
	serving    map[int64]served // threads with a run that is being claimed
	cancelling map[int64]served // threads with a run that is being cancelled
	heavy      []heavy          // QUEUED runs without room for their bytes, in the order in which they were weighed
}

// served is a run that is being claimed or cancelled, and whether a look has come to another one of the thread.
type served struct {
	run   int64
	again bool
}

// heavy is a QUEUED run that was weighed.
type heavy struct {
	run    data.RunHead
	weight data.Weight
	lacks  shortage // when it was weighed
}

// mostHeavy is how many heavy runs are remembered. Others are weighed again and again.
const mostHeavy = 1000

func newLooks() *looks {
	q := &looks{signal: make(chan struct{}, 1), due: true, cancels: true, serving: make(map[int64]served), cancelling: make(map[int64]served)}
	q.left.slots.all = true // until the first look
	return q
}

// nudge makes the queue look.
func (q *looks) nudge() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// note heeds the result of a decision.
func (q *looks) note(out *decide.Decided) {
	next := &out.Next
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heavy) > 0 {
		q.heavy = slices.DeleteFunc(q.heavy, func(h heavy) bool {
			return h.run.ThreadKey == out.Thread && (next.Do != data.ToClaim || next.Run.Key != h.run.Key)
		})
	}
	switch next.Do {
	case data.NoTodo:
		return
	case data.ToCancel:
		q.cancels = true
		again(q.cancelling, out.Thread)
	case data.ToClaim:
		q.due, q.wrote = true, true
		q.fresh++
		again(q.serving, out.Thread)
	}
	q.nudge()
}

// again has the queue look at the end of a mark: the thread needs the same once more, perhaps for the same run, which was answered.
func again(in map[int64]served, thread int64) {
	if now, is := in[thread]; is {
		in[thread] = served{now.run, true}
	}
}

// mark has the next look search for rows, with cancels also for those to cancel.
func (q *looks) mark(cancels bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due, q.cancels = true, q.cancels || cancels
}

// room has the queue look if a row may wait for a slot or for bytes: some have become free.
func (q *looks) room() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.due || q.looking || q.left.any() || len(q.heavy) > 0 {
		q.due = true
		q.nudge()
	}
}

// keepRoom gives the next room to the runs that have lost their server. It has the queue look if some did before.
func (q *looks) keepRoom(short shortages) {
	q.mu.Lock()
	defer q.mu.Unlock()
	had := q.orphans.any()
	q.orphans = short
	if had {
		q.due = true
		q.nudge()
	}
}

// orphansWait reports whether there are such runs.
func (q *looks) orphansWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.orphans.any()
}

// stops reports whether a new run has to wait behind others, as far as this instance knows: as many as there are free slots, or some
// that lack the same.
func (q *looks) stops(run *data.RunHead, weight int64, free int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fresh >= free || q.orphans.any() || weight > 0 && (q.fresh > 0 || len(q.heavy) > 0) || q.left.of(run, data.Weight{Asked: weight}) != (shortage{})
}

// lacks returns the shortage of a run of a weight because earlier ones wait.
func (q *looks) lacks(run *data.RunHead, w data.Weight) shortage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left.of(run, w)
}

// weight returns the weight of a QUEUED run as far as it is known.
func (q *looks) weight(run int64) (w data.Weight) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.heavyAt(run); at >= 0 {
		w = q.heavy[at].weight
	}
	return w
}

// heavyAt is the place of a run among the heavy ones, or below 0. The caller holds mu.
func (q *looks) heavyAt(run int64) int {
	return slices.IndexFunc(q.heavy, func(h heavy) bool { return h.run.Key == run })
}

// begin marks a thread in serving or cancelling. It reports false if the thread is marked.
func (q *looks) begin(in map[int64]served, thread, run int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now, is := in[thread]; is {
		in[thread] = served{now.run, now.again || now.run != run}
		return false
	}
	in[thread] = served{run: run}
	return true
}

// end removes the mark. It has the queue look if there is another run, of the thread or behind it.
func (q *looks) end(in map[int64]served, thread int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if in[thread].again || q.cut {
		q.due, q.cancels = true, true
		q.nudge()
	}
	delete(in, thread)
}

// take clears cancels or wrote, and reports whether it was set.
func (q *looks) take(flag *bool) (was bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	was, *flag = *flag, false
	return was
}

// takeDue reports whether a look is due, until the next call. It returns how many fresh rows the look considers, the heavy runs, and the
// shortages of the runs that come first.
func (q *looks) takeDue() (due bool, fresh int, waiting []heavy, short shortages) {
	q.mu.Lock()
	defer q.mu.Unlock()
	due, q.due, q.looking = q.due, false, q.due
	return due, q.fresh, slices.Clone(q.heavy), q.orphans.clone()
}

// looked ends a look that has considered so many fresh rows. With more the next one goes on.
func (q *looks) looked(fresh int, left *shortages, more, cut bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looking, q.cut = false, cut
	if cut && len(q.serving) == 0 { // all that were served have ended meanwhile
		q.due = true
		q.nudge()
	}
	q.fresh -= fresh
	q.left = *left
	for i := range q.heavy { // some were weighed meanwhile
		q.left.note(&q.heavy[i].run, q.heavy[i].lacks)
	}
	if more {
		q.left.slots.all, q.due = true, true
	}
}

// weighed remembers a run without room for its bytes. It reports false if there are too many.
func (q *looks) weighed(h heavy) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.heavy) >= mostHeavy {
		return false
	}
	q.heavy = append(q.heavy, h)
	q.left.note(&h.run, h.lacks)
	return true
}

// forget removes a run from the heavy ones.
func (q *looks) forget(run int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.heavyAt(run); at >= 0 {
		q.heavy = slices.Delete(q.heavy, at, at+1)
	}
}
