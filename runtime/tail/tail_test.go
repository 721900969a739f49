package tail

import (
	"errors"
	"io"
	"testing"
)

// A reader that follows a thread for days must not collect the runs that are cancelled meanwhile.
func TestTail_RemembersCancelledRunsOfReaders(t *testing.T) {
	logs := New(Config{})
	tail := logs.Hold(1, "thread")
	defer tail.Release()
	tail.Begin(0)
	cursor := func() *RunCursor {
		return (&Cursor{t: logs.Hold(1, "thread")}).OfRun(7, "run", Sender{})
	}
	first, second := cursor(), cursor()
	void := make([]int64, 1000)
	for i := range void {
		void[i] = int64(i)
	}
	logs.Deliver(1, nil, nil, &Change{Busy: true, Void: void})
	if n := len(tail.cancelled); n != 1 {
		t.Errorf("%d cancelled runs remembered, want 1", n)
	}
	first.Close()
	for range 2 { // the records of a span without events, and its end
		if _, err := second.Next(t.Context()); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if !second.Ended() {
		t.Error("the second cursor of the run has not ended")
	}
	second.Close()
	if n := len(tail.cancelled); n != 0 {
		t.Errorf("%d cancelled runs remembered without a reader", n)
	}
}
