package span

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

// A span retains nothing of a large event once that is written, however long its run goes on.
func TestSpan_KeepsNoLargeEvent(t *testing.T) {
	t.Parallel()
	sp := new(Span)
	small, large := agui.TextMessageContent{MessageID: "m", Delta: "x"}, agui.TextMessageContent{MessageID: "m", Delta: strings.Repeat("x", 1<<20)}
	first := sp.encode(small)
	was := string(first)
	if got := sp.encode(large); len(got) < 1<<20 || cap(sp.slab) > maxSlab {
		t.Errorf("an event of %d bytes leaves %d", len(got), cap(sp.slab))
	}
	if again := sp.encode(small); string(again) != was || string(first) != was {
		t.Errorf("small events are %s and %s, want %s", first, again, was)
	}
	if cap(sp.slab) == 0 {
		t.Error("small events share nothing")
	}
}
