package rest_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// together makes requests at the same time and returns their statuses.
func (s *server) together(requests ...[3]string) []int {
	s.Helper()
	got := make([]int, len(requests))
	errs := make([]error, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			var body any
			if r[2] != "" {
				body = r[2]
			}
			a, err := s.try(r[0], r[1], body)
			got[i], errs[i] = a.Status, err
			if err == nil && a.Status >= 500 {
				s.Errorf("%s %s: %d %s", r[0], r[1], a.Status, a.Body)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			s.Fatal(err)
		}
	}
	return got
}

// Whichever of two decisions about a run comes first, the other is answered as if it had come second.
func TestRacingDecisions(t *testing.T) {
	s := serve(t, runtime.Config{})
	for range 40 {
		id := s.inState("COMPLETED")
		got := s.together([3]string{"DELETE", runs + "/" + id, ""}, [3]string{"POST", runs + "/" + id + "/messages", `{"content": "x"}`})
		if !slices.Contains([][2]int{{204, 404}, {400, 201}, {204, 201}}, [2]int(got)) {
			t.Fatalf("delete and append: %v", got)
		}
	}
	for range 20 {
		id := s.script(`{"say": "a b c"}`)
		got := s.together([3]string{"POST", runs + "/" + id + "/cancel", ""}, [3]string{"POST", runs + "/" + id + "/messages", `{"content": "x"}`})
		if got[0] != 200 && got[0] != 400 || got[1] != 201 && got[1] != 400 {
			t.Fatalf("cancel and append: %v", got)
		}
		r := s.get(id)
		if got[0] == 200 && r.Status != "CANCELLED" {
			t.Fatalf("cancelled, and then %s", r.Status)
		}
		if got[0] == 400 {
			s.await(id, "COMPLETED")
		}
	}
	for range 20 {
		r := s.await(s.script(`{"ask": {"message": "?"}}`), "WAITING")
		answer := `{"resume": [{"interruptId": "` + r.Interrupts[0].ID + `", "status": "cancelled"}]}`
		path := runs + "/" + r.ID
		got := s.together([3]string{"POST", path + "/resume", answer}, [3]string{"POST", path + "/resume", answer}, [3]string{"POST", path + "/cancel", ""})
		resumed := 0
		for _, status := range got[:2] {
			if status == 202 {
				resumed++
			}
		}
		if resumed > 1 {
			t.Fatalf("answered twice: %v", got)
		}
		if got[2] == 200 && s.get(r.ID).Status != "CANCELLED" {
			t.Fatalf("cancelled, and then %s", s.get(r.ID).Status)
		}
	}
}

func TestCancelledOnceForAll(t *testing.T) {
	s := serve(t, runtime.Config{})
	for _, status := range []string{"RUNNING", "WAITING", "QUEUED"} {
		id := s.inState(status)
		for _, a := range s.atOnce(20, runs+"/"+id+"/cancel", "", "") {
			if a.Status != 200 || as[cancelled](a, 200).FinishedAt != *s.get(id).FinishedAt {
				t.Errorf("%s: got %d %s", status, a.Status, a.Body)
			}
		}
	}
}
