package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// Two viewers get ids 1..n. A viewer that is cut at any N and resumes gets the rest byte for byte.
func TestStream_ResumesAtEveryEvent(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		run := s.run("cut", `{"do":[{"say":"hello there"},{"tokens":200,"delayMs":1},{"tool":"clock"}]}`)
		a, b := s.watch("cut"), s.watch("cut")
		frames := a.wait(t)
		sameFrames(t, "two viewers", frames, b.wait(t))
		checkLog(t, "cut", frames)
		s.checkRun(t, run, frames)
		if len(frames) < 206 {
			t.Fatalf("only %d events", len(frames))
		}
		for n := range frames {
			var rest []frame
			status, err := s.read(events("cut"), int64(n), func(f frame) bool { rest = append(rest, f); return true })
			if err != nil || status != http.StatusOK {
				t.Fatalf("cut at %d: %d %v", n, status, err)
			}
			sameFrames(t, fmt.Sprintf("cut at %d", n), frames[n:], rest)
		}
		if status, _ := s.read(events("cut"), int64(len(frames)), nil); status != http.StatusNoContent {
			t.Errorf("at the end of an idle thread: %d, want 204", status)
		}
		if status, _ := s.read(events("cut"), int64(len(frames))+1, nil); status != http.StatusBadRequest {
			t.Errorf("beyond the end: %d, want 400", status)
		}
	})
}

// Viewers that connect and disconnect while a run streams all see the same log.
func TestStream_SameLogForAllViewers(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		s.run("many", `{"do":[{"tokens":300,"delayMs":2}]}`)
		var wg sync.WaitGroup
		seen := make([][]frame, 20)
		for i := range seen {
			wg.Go(func() {
				var last int64
				for {
					n := 0
					status, _ := s.read(events("many"), last, func(f frame) bool {
						seen[i] = append(seen[i], f)
						last = f.id
						n++
						return n < 7+i // disconnect after a few
					})
					if status == http.StatusNoContent {
						return
					}
				}
			})
		}
		wg.Wait()
		all := s.all("many")
		checkLog(t, "many", all)
		for i := range seen {
			sameFrames(t, fmt.Sprintf("viewer %d", i), all, seen[i])
		}
	})
}
