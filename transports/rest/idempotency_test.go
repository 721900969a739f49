package rest_test

import (
	"strings"
	"sync"
	"testing"
)

func TestEqualKeysAtOnceMakeOneRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	body := `{"agent": "scripted", "content": "{\"do\": [{\"say\": \"once\"}]}"}`
	answers := s.atOnce(50, runs, body, "k-1")
	first := answers[0]
	for _, a := range answers {
		if a.Status != 202 || a.Body != first.Body {
			t.Fatalf("got %d %s and %s", a.Status, a.Body, first.Body)
		}
	}
	id := as[run](first, 202).RunID
	s.await(id, "COMPLETED")
	if again := s.do("POST", runs, body, "Idempotency-Key", "k-1"); again.Status != 202 || again.Body != first.Body {
		t.Errorf("after its end the run is answered as %d %s, first as %s", again.Status, again.Body, first.Body)
	}
	if page := as[page[run]](s.do("GET", runs+"?count=true", nil), 200); page.Total != 1 {
		t.Errorf("%d runs, want 1", page.Total)
	}
	s.do("POST", runs, `{"agent": "echo", "content": "another"}`, "Idempotency-Key", "k-1").
		refused(409, "idempotency_mismatch", "This Idempotency-Key was used with another body")
	s.do("POST", runs, body, "Idempotency-Key", "two words").
		refused(400, "invalid_idempotency_key", "Idempotency-Key must be 1 to 255 visible characters")
	s.do("POST", runs, body, "Idempotency-Key", strings.Repeat("k", 256)).
		refused(400, "invalid_idempotency_key", "Idempotency-Key must be 1 to 255 visible characters")
}

func TestEqualKeysAtOnceAnswerOnce(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.script(`{"ask": {"message": "?"}}`)
	asked := s.await(id, "WAITING").Interrupts[0].ID
	body := `{"resume": [{"interruptId": "` + asked + `", "status": "resolved"}]}`
	answers := s.atOnce(50, runs+"/"+id+"/resume", body, "k-1")
	for _, a := range answers {
		if a.Status != 202 || a.Body != answers[0].Body {
			t.Fatalf("got %d %s and %s", a.Status, a.Body, answers[0].Body)
		}
	}
	s.await(id, "COMPLETED")
	if again := s.do("POST", runs+"/"+id+"/resume", body, "Idempotency-Key", "k-1"); again.Status != 202 || again.Body != answers[0].Body {
		t.Errorf("after its end the run is answered as %d %s, first as %s", again.Status, again.Body, answers[0].Body)
	}
	s.do("POST", runs+"/"+id+"/resume", body, "Idempotency-Key", "k-2").refused(409, "already_answered", sprint("The interrupt %q has been answered already", asked))
	s.do("POST", runs+"/"+id+"/resume", strings.ReplaceAll(body, "resolved", "cancelled"), "Idempotency-Key", "k-1").
		refused(409, "idempotency_mismatch", "This Idempotency-Key was used with another body")
}

// A key belongs to its path: on another run it is another key.
func TestKeyBelongsToItsPath(t *testing.T) {
	t.Parallel()
	s := serve(t)
	one, two := s.script(`{"say": "1"}`), s.script(`{"say": "2"}`)
	body := `{"content": "more"}`
	a := as[message](s.do("POST", runs+"/"+one+"/messages", body, "Idempotency-Key", "k"), 201)
	b := as[message](s.do("POST", runs+"/"+two+"/messages", body, "Idempotency-Key", "k"), 201)
	if a.ID == b.ID || a.RunID != one || b.RunID != two {
		t.Errorf("got %+v and %+v", a, b)
	}
}

// Refusals are not remembered.
func TestRefusalIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.script(`{"ask": {"message": "?"}}`)
	thread := s.await(id, "WAITING").ThreadID
	body := map[string]any{"agent": "echo", "content": "x", "threadId": thread}
	s.do("POST", runs, body, "Idempotency-Key", "k").
		refused(409, "thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt")
	s.do("POST", runs+"/"+id+"/cancel", nil)
	as[run](s.do("POST", runs, body, "Idempotency-Key", "k"), 202)
}

// atOnce makes n equal requests at the same time.
func (s *server) atOnce(n int, path, body, key string) []answered {
	s.Helper()
	answers := make([]answered, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if key == "" {
				answers[i], errs[i] = s.try("POST", path, body)
				return
			}
			answers[i], errs[i] = s.try("POST", path, body, "Idempotency-Key", key)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			s.Fatal(err)
		}
	}
	return answers
}
