package rest_test

import (
	"fmt"
	"math"
	"net/url"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// The cost of a page of history is linear in its size, however many members a message's metadata has.
func TestHistoryOfManyMembersIsLinear(t *testing.T) {
	s := serve(t)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would have pools be filled again
	part := strings.Repeat("x", 1<<20)
	took := func(members int) (bytes, objects float64) {
		var metadata strings.Builder
		for i := range members {
			fmt.Fprintf(&metadata, `,"member %d":%d`, i, i)
		}
		thread := fmt.Sprint("of ", members)
		body := fmt.Sprintf(`{"agent":"echo","threadId":%q,"messages":[{"id":"m","role":"user","metadata":{"first":1%s},"content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"data","value":%q,"mimeType":"image/png"}}]}]}`, thread, metadata.String(), part)
		s.await(as[run](s.do("POST", runs, body), 202).RunID, "COMPLETED")
		page := history + "?threadId=" + url.QueryEscape(thread)
		if a := s.do("GET", page, nil); a.Status != 200 || strings.Count(a.Body, `"member `) != members || !strings.Contains(a.Body, part) {
			t.Fatalf("%d members: %d, %d bytes", members, a.Status, len(a.Body))
		}
		size, count := math.Inf(1), math.Inf(1)
		for range 3 { // the least: others allocate beside it
			var before, after goruntime.MemStats
			goruntime.ReadMemStats(&before)
			s.do("GET", page, nil)
			goruntime.ReadMemStats(&after)
			size = min(size, float64(after.TotalAlloc-before.TotalAlloc))
			count = min(count, float64(after.Mallocs-before.Mallocs))
		}
		return size, count
	}
	bytes, objects := took(10_000)
	more, moreObjects := took(20_000)
	t.Logf("%.1f and %.1f MB, %.0f and %.0f objects", bytes/1e6, more/1e6, objects, moreObjects)
	if each := (moreObjects - objects) / 10_000; each > 1.5 { // its name, and no look at the part
		t.Errorf("a member takes %.1f objects", each)
	}
	if more > 2.5*bytes || moreObjects > 2.5*objects {
		t.Errorf("twice the members took %.1f times the memory, and %.1f times the objects", more/bytes, moreObjects/objects)
	}
}
