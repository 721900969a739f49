package queue

import (
	"testing"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
	"github.com/batonrun/baton/runtime/quota"
)

// nudged reports whether the queue has to look, and finds a row to serve then.
func nudged(q *looks) bool {
	select {
	case <-q.signal:
		due, _, _, _ := q.takeDue()
		return due
	default:
		return false
	}
}

// Room that becomes free while a look reads is seen by the next one: the look has found it missing, and has not said so yet.
func TestLooks_RoomDuringALookIsSeen(t *testing.T) {
	t.Parallel()
	q := newLooks()
	q.takeDue()
	q.looked(0, &shortages{}, false, false) // the look before has left no row
	q.mark(false)
	_, fresh, _, _ := q.takeDue()
	q.room()
	var short shortages
	short.slots.note(quota.User, data.Name{Project: "p", User: "ann"})
	q.looked(fresh, &short, false, false)
	if !nudged(q) {
		t.Error("it is not seen")
	}
	q.looked(0, &shortages{}, false, false)
	if q.room(); nudged(q) {
		t.Error("there is a look although no row waits")
	}
}

// A thread's next run is served although a look comes to it before the end of the claim of the one before it.
func TestLooks_ServeTheNextRunOfAThread(t *testing.T) {
	t.Parallel()
	q := newLooks()
	q.takeDue()
	q.looked(0, &shortages{}, false, false)
	if !q.begin(q.serving, 1, 10) || q.begin(q.serving, 1, 10) {
		t.Error("a run is served twice, or not at all")
	}
	if q.end(q.serving, 1); nudged(q) {
		t.Error("a run that is served is looked for")
	}
	for _, next := range []int64{11, 10} { // the same run may have been answered
		q.begin(q.serving, 1, 10)
		q.note(&decide.Decided{Thread: 1, Next: decide.Next{Do: data.ToClaim, Run: data.RunHead{Key: next, ThreadKey: 1}}})
		if !nudged(q) || q.begin(q.serving, 1, next) {
			t.Error("a row is not looked for, or two runs of a thread are served")
		}
		q.looked(1, &shortages{}, false, false)
		if q.end(q.serving, 1); !nudged(q) {
			t.Errorf("run %d waits for ever", next)
		}
	}
}
