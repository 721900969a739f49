package agui_test

import (
	"fmt"
	"testing"

	"github.com/batonrun/baton/transports"
)

// BenchmarkConnect measures the prelude of threads with 20 messages: its cost must not depend on how many
// events they took, nor on whether a run is at work.
func BenchmarkConnect(b *testing.B) {
	for _, events := range []int{100, 10_000} {
		for _, live := range []bool{false, true} {
			b.Run(fmt.Sprintf("events=%d/live=%t", events, live), func(b *testing.B) { benchConnect(b, events, live) })
		}
	}
}

func benchConnect(b *testing.B, events int, live bool) {
	b.Helper()
	s := serve(b, transports.StreamConfig{})
	// All threads have the same text, cut into few deltas or many.
	deltas := events / 10
	for i := range 10 {
		ops := fmt.Sprintf(`{"tokens": %d, "size": %d}`, deltas, 4_000/deltas)
		if got := s.run("scripted", "main", fmt.Sprint("run", i), script(ops), "").All(); len(got) < 4_000 {
			b.Fatal(got)
		}
	}
	last := "RUN_FINISHED"
	if live {
		s.typing()
		last = "STEP_STARTED"
	}
	for b.Loop() {
		r := s.connect("")
		r.Until("event: " + last)
		r.Drop()
	}
	b.StopTimer()
	if live {
		close(s.Keys)
		s.Await("a", "COMPLETED", "CANCELLED")
	}
}
