package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func (s *server) cancel(run string) (int, map[string]any) {
	s.t.Helper()
	return s.call("POST", "/api/projects/default/agent-runs/"+run+"/cancel", nil)
}

// A cancel ends a run whose tool ignores its context, and no event follows.
func TestCancel_DuringStubbornTool(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		run := s.run("deaf", `{"do":[{"say":"wait for it"},{"tool":"stubborn","args":{"ms":2000}},{"say":"too late"}]}`)
		v := s.watch("deaf")
		s.until("in the tool", func() bool {
			return len(s.items("/api/projects/default/agent-runs/"+run+"/messages")) >= 2
		})
		status, out := s.cancel(run)
		if status != http.StatusOK || out["status"] != "CANCELLED" || out["finishedAt"] == nil {
			t.Fatalf("cancel: %d %v", status, out)
		}
		frames := v.wait(t)
		if _, again := s.cancel(run); again["finishedAt"] != out["finishedAt"] {
			t.Errorf("cancelled again: %v, first %v", again, out)
		}
		s.ended(s.run("other", `{"do":[{"tool":"stubborn","args":{"ms":2000}}]}`)) // called later than the cancelled one
		sameFrames(t, "after the tool returned", frames, s.all("deaf"))
		checkLog(t, "deaf", frames)
		s.checkRun(t, run, frames)
		next := s.run("deaf", `{"do":[{"say":"next turn"}]}`)
		if row := s.ended(next); row["status"] != "COMPLETED" {
			t.Errorf("the next turn is %v", row["status"])
		}
	})
}

// Exactly one of a cancel and the run's end wins, and row and log agree.
func TestCancel_RacesWithFinish(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		won := map[any]int{}
		var mu sync.Mutex
		parallel(count(500), 8, func(i int) {
			thread := fmt.Sprint("race", i)
			run := s.run(thread, `{"do":[{"tokens":20}]}`)
			pause(time.Duration(rand.IntN(60)) * time.Millisecond)
			status, out := s.cancel(run)
			row := s.ended(run)
			if (status == http.StatusOK) != (row["status"] == "CANCELLED") {
				t.Errorf("cancel: %d %v, the run is %v", status, out, row["status"])
			}
			if status != http.StatusOK && out["detail"] != fmt.Sprintf("Run cannot be cancelled. Current status: %v", row["status"]) {
				t.Errorf("cancel: %d %v", status, out)
			}
			frames := s.all(thread)
			checkLog(t, thread, frames)
			s.checkRun(t, run, frames)
			mu.Lock()
			won[row["status"]]++
			mu.Unlock()
		})
		t.Logf("winners: %v", won)
	})
}

func parallel(n, width int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, width)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// Cancel runs that are not executing, during the pause before a retry, and twice.
func TestCancel_InEveryState(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		running := s.run("q", `{"do":[{"tool":"sleep","args":{"ms":60000}}]}`)
		queued := s.run("q", `{"do":[{"say":"never"}]}`)
		waiting := s.run("w", `{"do":[{"ask":{"message":"Deploy?"}}]}`)
		s.until("waiting", func() bool { return s.get(waiting)["status"] == "WAITING" })
		for _, run := range []string{queued, waiting, running} {
			for range 2 {
				if status, out := s.cancel(run); status != http.StatusOK || out["status"] != "CANCELLED" {
					t.Errorf("cancel: %d %v", status, out)
				}
			}
		}
		for thread, runs := range map[string][]string{"q": {queued, running}, "w": {waiting}} {
			frames := s.all(thread)
			checkLog(t, thread, frames)
			for _, run := range runs {
				s.checkRun(t, run, frames)
			}
		}
		if status, out := s.call("POST", "/api/projects/default/agent-runs/"+queued+"/messages", map[string]any{"content": "x"}); status != http.StatusBadRequest ||
			out["detail"] != "Run cannot accept messages. Current status: CANCELLED" {
			t.Errorf("append to a cancelled run: %d %v", status, out)
		}
	})
}

// A message that races with the run's end is neither lost nor answered twice.
func TestAppend_RacesWithFinish(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		parallel(count(500), 8, func(i int) {
			thread := fmt.Sprint("append", i)
			run := s.run(thread, `{"do":[{"tokens":10}]}`)
			pause(time.Duration(rand.IntN(10)) * time.Millisecond)
			status, out := s.call("POST", "/api/projects/default/agent-runs/"+run+"/messages",
				map[string]any{"content": `{"do":[{"say":"appended answer"}]}`})
			if status != http.StatusCreated {
				t.Errorf("append: %d %v", status, out)
				return
			}
			row := s.ended(run)
			s.until("answered", func() bool { row = s.ended(run); return len(s.all(thread)) > 0 && answers(s.all(thread)) > 0 })
			frames := s.all(thread)
			checkLog(t, thread, frames)
			s.checkRun(t, run, frames)
			if n := answers(frames); n != 1 {
				t.Errorf("thread %s: the appended message was answered %d times, the run is %v", thread, n, row["status"])
			}
		})
	})
}

func answers(frames []frame) int {
	n := 0
	for i := range frames {
		if frames[i].typ == "TEXT_MESSAGE_END" && strings.Contains(frames[i].data, `"answer":"appended answer"`) {
			n++
		}
	}
	return n
}

// Fifty concurrent requests with one Idempotency-Key start one run; another body is refused.
func TestIdempotencyKey_StartsOneRun(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		body := map[string]any{"agent": "echo", "threadId": "same", "content": "hello"}
		var mu sync.Mutex
		runs := map[any]int{}
		parallel(50, 50, func(int) {
			status, out := s.call("POST", "/api/v1/agent/runs", body, "Idempotency-Key", "k1")
			if status != http.StatusAccepted {
				t.Errorf("start: %d %v", status, out)
			}
			mu.Lock()
			runs[out["runId"]]++
			mu.Unlock()
		})
		if len(runs) != 1 {
			t.Errorf("started %v", runs)
		}
		frames := s.all("same")
		checkLog(t, "same", frames)
		s.kill()
		s.up()
		if _, out := s.call("POST", "/api/v1/agent/runs", body, "Idempotency-Key", "k1"); runs[out["runId"]] == 0 {
			t.Errorf("after a restart: %v", out)
		}
		body["content"] = "other"
		if status, out := s.call("POST", "/api/v1/agent/runs", body, "Idempotency-Key", "k1"); status != http.StatusConflict {
			t.Errorf("another body: %d %v", status, out)
		}
	})
}
