package log

import (
	"errors"
	"io"
	"testing"
)

// A reader that follows a thread for days holds its tail, while runs are cancelled before their turn.
func TestTail_KnowsOnlyTheVoidRunsThatAreRead(t *testing.T) {
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
	logs.Deliver(1, nil, &Change{Busy: true, Void: void})
	if n := len(tail.void); n != 1 {
		t.Errorf("%d void runs are known while one is read", n)
	}
	first.Close()
	for range 2 { // the records of a span that was never written, and its end
		if _, err := second.Next(t.Context()); err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if !second.Ended() {
		t.Error("the other cursor of the run does not end")
	}
	second.Close()
	if n := len(tail.void); n != 0 {
		t.Errorf("%d void runs are known that nobody reads", n)
	}
}
