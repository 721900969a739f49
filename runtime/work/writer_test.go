package work

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

// A writer keeps nothing of a large event once that is written, however long its run goes on.
func TestLargeEventsAreNotKept(t *testing.T) {
	w := new(writer)
	small, large := agui.TextMessageContent{MessageID: "m", Delta: "x"}, agui.TextMessageContent{MessageID: "m", Delta: strings.Repeat("x", 1<<20)}
	first := w.encode(small)
	was := string(first)
	if got := w.encode(large); len(got) < 1<<20 || cap(w.slab) > maxSlab {
		t.Errorf("an event of %d bytes leaves %d", len(got), cap(w.slab))
	}
	if again := w.encode(small); string(again) != was || string(first) != was {
		t.Errorf("small events are %s and %s, want %s", first, again, was)
	}
	if cap(w.slab) == 0 {
		t.Error("small events share nothing")
	}
}
