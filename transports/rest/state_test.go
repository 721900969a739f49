package rest_test

import (
	"testing"
)

type cancelled struct{ ID, Status, FinishedAt string }

// blocker starts a run that stays RUNNING on the thread, and returns its id.
func (s *server) blocker(thread string) string {
	s.Helper()
	id := s.start(map[string]any{
		"agent": "scripted", "threadId": thread, "content": `{"do": [{"say": "hold"}, {"tool": "sleep", "args": {"ms": 60000}}]}`,
	}).RunID
	s.await(id, "RUNNING")
	return id
}

// inState brings a run to a status and returns its id.
func (s *server) inState(status string) string {
	s.Helper()
	var id string
	switch status {
	case "QUEUED":
		s.blocker("busy")
		id = s.start(map[string]any{"agent": "scripted", "threadId": "busy", "content": `{"do": [{"say": "later"}]}`}).RunID
	case "RUNNING":
		id = s.blocker("running")
	case "WAITING":
		id = s.script(`{"say": "well"}, {"ask": {"message": "Deploy?"}}`)
	case "COMPLETED":
		id = s.script(`{"say": "done"}`)
	case "FAILED":
		id = s.script(`{"say": "oh"}, {"fail": "boom", "code": "x", "times": 1}`)
	case "CANCELLED":
		id = s.blocker("cancelled")
		as[cancelled](s.do("POST", runs+"/"+id+"/cancel", nil), 200)
	}
	s.await(id, status)
	return id
}

var everyStatus = []string{"QUEUED", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"}

func TestCancelInEachState(t *testing.T) {
	t.Parallel()
	for _, status := range everyStatus {
		t.Run(status, func(t *testing.T) {
			s := serve(t)
			id := s.inState(status)
			a := s.do("POST", runs+"/"+id+"/cancel", nil)
			if status == "COMPLETED" || status == "FAILED" {
				a.refused(400, "invalid_state", "Run cannot be cancelled. Current status: "+status)
				return
			}
			first := as[cancelled](a, 200)
			if first.ID != id || first.Status != "CANCELLED" || first.FinishedAt == "" {
				t.Errorf("got %+v", first)
			}
			r := s.get(id)
			if r.Status != "CANCELLED" || r.FinishedAt == nil || *r.FinishedAt != first.FinishedAt || len(r.Interrupts) != 0 {
				t.Errorf("cancelled as %+v, shown as %+v", first, r)
			}
			if again := s.do("POST", runs+"/"+id+"/cancel", `{"ignored": `); again.Status != 200 || again.Body != a.Body {
				t.Errorf("answered %s, then %d %s", a.Body, again.Status, again.Body)
			}
			s.do("POST", runs+"/"+id+"/messages", `{"content": "x"}`).
				refused(400, "invalid_state", "Run cannot accept messages. Current status: CANCELLED")
			for _, n := range as[page[step]](s.do("GET", runs+"/"+id+"/node-states", nil), 200).Items {
				if n.Status != "CANCELLED" {
					t.Errorf("node state %+v", n)
				}
			}
			for _, st := range as[page[step]](s.do("GET", runs+"/"+id+"/steps", nil), 200).Items {
				if st.Status != "CANCELLED" || st.CompletedAt == nil {
					t.Errorf("step %+v", st)
				}
			}
		})
	}
}

func TestAppendInEachState(t *testing.T) {
	t.Parallel()
	const more = `{"content": "{\"do\": [{\"say\": \"more\"}]}", "contextItemIds": ["ctx_1", "ctx_2"]}`
	for _, status := range everyStatus {
		t.Run(status, func(t *testing.T) {
			s := serve(t)
			id := s.inState(status)
			before := s.get(id)
			a := s.do("POST", runs+"/"+id+"/messages", more)
			if status == "CANCELLED" {
				a.refused(400, "invalid_state", "Run cannot accept messages. Current status: CANCELLED")
				return
			}
			m := as[message](a, 201)
			if m.RunID != id || m.Role != "user" || len(m.ContextItemIDs) != 2 || m.CreatedAt.IsZero() {
				t.Errorf("got %+v", m)
			}
			listed := pages[message](s, runs+"/"+id+"/messages", 2)
			if n := count(listed, m.ID); n != 1 {
				t.Errorf("the message is listed %d times", n)
			}
			switch status {
			case "COMPLETED", "FAILED":
				r := s.await(id, "COMPLETED")
				if r.Generation != 2 || r.ConversationID != before.ConversationID {
					t.Errorf("got %+v, before %+v", r, before)
				}
				s.said(id, "more")
				s.numbered(id)
			case "QUEUED":
				for _, r := range pages[run](s, runs, 50) {
					if r.ID != id {
						s.do("POST", runs+"/"+r.ID+"/cancel", nil)
					}
				}
				s.await(id, "COMPLETED")
				s.said(id, "more")
			case "WAITING":
				if r := s.get(id); r.Status != "WAITING" {
					t.Fatalf("appending made it %s", r.Status)
				}
				s.answer(s.get(id))
				s.await(id, "COMPLETED")
				s.said(id, "more")
			case "RUNNING":
				as[cancelled](s.do("POST", runs+"/"+id+"/cancel", nil), 200)
				if n := count(pages[message](s, runs+"/"+id+"/messages", 500), m.ID); n != 1 {
					t.Errorf("after cancel the message is listed %d times", n)
				}
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.inState("COMPLETED")
	path := runs + "/" + id + "/messages"
	for body, detail := range map[string]string{
		`{}`:                                    "Message content must not be empty",
		`{"content": ""}`:                       "Message content must not be empty",
		`{"content": " \u00a0\n"}`:              "Message content must not be empty",
		`{"content": null}`:                     "Message content must not be empty",
		`{"content": 5}`:                        "content must be a string",
		`{"content": "x", "contextItemIds": 1}`: "contextItemIds must be an array of strings",
		`[]`:                                    "The request must be a JSON object",
		``:                                      "The request body is empty; send a JSON object",
	} {
		a := s.do("POST", path, body)
		if e := as[struct{ Detail string }](a, 400); e.Detail != detail {
			t.Errorf("%s: got %q, want %q", body, e.Detail, detail)
		}
	}
	long := make([]byte, 1<<20)
	for i := range long {
		long[i] = 'x'
	}
	as[message](s.do("POST", path, map[string]any{"content": string(long)}), 201)
	s.do("POST", path, map[string]any{"content": string(long) + "x"}).
		refused(413, "content_too_large", "A message may hold 1048576 bytes")
	s.await(id, "COMPLETED")
}

func TestDeleteInEachState(t *testing.T) {
	t.Parallel()
	for _, status := range everyStatus {
		t.Run(status, func(t *testing.T) {
			s := serve(t)
			id := s.inState(status)
			a := s.do("DELETE", runs+"/"+id, nil)
			switch status {
			case "QUEUED", "RUNNING", "WAITING":
				a.refused(400, "invalid_state", "Run cannot be deleted. Current status: "+status)
				s.get(id)
			default:
				if a.Status != 204 || a.Body != "" {
					t.Fatalf("got %d %s", a.Status, a.Body)
				}
				for _, rest := range []string{"", "/steps", "/node-states", "/messages"} {
					s.do("GET", runs+"/"+id+rest, nil).refused(404, "not_found", "Agent run not found")
				}
				s.do("DELETE", runs+"/"+id, nil).refused(404, "not_found", "Agent run not found")
				s.do("POST", runs+"/"+id+"/cancel", nil).refused(404, "not_found", "Agent run not found")
				s.do("POST", runs+"/"+id+"/messages", `{"content": "x"}`).refused(404, "not_found", "Agent run not found")
			}
		})
	}
}

func TestResume(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.script(`{"say": "well"}, {"ask": {"message": "Deploy?", "schema": {"type": "object"}}}, {"say": "bye"}`)
	r := s.await(id, "WAITING")
	if len(r.Interrupts) != 1 || r.Interrupts[0].Message != "Deploy?" || r.FinishedAt != nil {
		t.Fatalf("got %+v", r)
	}
	path := runs + "/" + id + "/resume"
	for body, detail := range map[string]string{
		`{}`:                            "resume must hold at least one answer",
		`{"resume": []}`:                "resume must hold at least one answer",
		`{"resume": {}}`:                "resume must be an array",
		`{"resume": [{"status": "x"}]}`: `There is no interrupt ""`,
		`{"resume": [{"interruptId": "unknown", "status": "resolved"}]}`:                   `There is no interrupt "unknown"`,
		`{"resume": [{"interruptId": "` + r.Interrupts[0].ID + `", "status": "perhaps"}]}`: "An answer's status must be resolved or cancelled",
		`{"resume": [{"interruptId": "` + r.Interrupts[0].ID + `"}]}`:                      "An answer's status must be resolved or cancelled",
	} {
		if e := as[struct{ Detail string }](s.do("POST", path, body), 400); e.Detail != detail {
			t.Errorf("%s: got %q, want %q", body, e.Detail, detail)
		}
	}
	if got := s.answer(r); got.ID != id || got.Status != "QUEUED" && got.Status != "RUNNING" {
		t.Errorf("got %+v", got)
	}
	s.await(id, "COMPLETED")
	s.said(id, "bye")
	s.said(id, "well")
	s.do("POST", path, map[string]any{"resume": []any{map[string]any{"interruptId": r.Interrupts[0].ID, "status": "resolved"}}}).
		refused(409, "already_answered", sprint("The interrupt %q has been answered already", r.Interrupts[0].ID))
	if done := s.get(id); done.Generation != 1 || len(done.Interrupts) != 0 {
		t.Errorf("got %+v", done)
	}
	s.numbered(id)
}

// Two open questions, of two nodes, are answered one by one, and one body answers each at most once.
func TestResumeAnswersOneByOne(t *testing.T) {
	t.Parallel()
	s := serve(t, both(), asker{})
	id := s.start(map[string]any{"workflowId": "both", "content": "x"}).RunID
	r := s.await(id, "WAITING")
	if len(r.Interrupts) != 2 {
		t.Fatalf("%d questions are open, want 2", len(r.Interrupts))
	}
	entry := func(i int) map[string]any {
		return map[string]any{"interruptId": r.Interrupts[i].ID, "status": "resolved", "payload": map[string]any{"n": i}}
	}
	path := runs + "/" + id + "/resume"
	s.do("POST", path, map[string]any{"resume": []any{entry(0), entry(0)}}).
		refused(400, "duplicate_answer", sprint("The interrupt %q is answered twice", r.Interrupts[0].ID))
	as[run](s.do("POST", path, map[string]any{"resume": []any{entry(0)}}), 202)
	if again := s.await(id, "WAITING"); len(again.Interrupts) != 1 || again.Interrupts[0].ID != r.Interrupts[1].ID {
		t.Fatalf("after the first answer: %+v", again)
	}
	s.do("POST", path, map[string]any{"resume": []any{entry(1), entry(0)}}).
		refused(409, "already_answered", sprint("The interrupt %q has been answered already", r.Interrupts[0].ID))
	as[run](s.do("POST", path, map[string]any{"resume": []any{entry(1)}}), 202)
	s.await(id, "COMPLETED")
}

// A question of a cancelled run was cancelled, by the run's route and by the thread's.
func TestAnswerToACancelledQuestion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.script(`{"ask": {"message": "?"}}`)
	r := s.await(id, "WAITING")
	s.do("POST", runs+"/"+id+"/cancel", nil)
	answer := []any{map[string]any{"interruptId": r.Interrupts[0].ID, "status": "resolved"}}
	for path, body := range map[string]map[string]any{
		runs + "/" + id + "/resume": {"resume": answer}, runs: {"threadId": r.ThreadID, "resume": answer},
	} {
		s.do("POST", path, body).
			refused(409, "interrupt_cancelled", sprint("The interrupt %q was cancelled: its step or its run is over", r.Interrupts[0].ID))
	}
}

// answer answers everything a run asks.
func (s *server) answer(r run) run {
	s.Helper()
	var entries []any
	for _, in := range r.Interrupts {
		entries = append(entries, map[string]any{"interruptId": in.ID, "status": "resolved", "payload": map[string]any{"ok": true}})
	}
	return as[run](s.do("POST", runs+"/"+r.ID+"/resume", map[string]any{"resume": entries}), 202)
}

func count(msgs []message, id string) (n int) {
	for _, m := range msgs {
		if m.ID == id {
			n++
		}
	}
	return n
}

// has counts a run's messages of that role and content.
func (s *server) has(id, role, content string) (n int) {
	s.Helper()
	for _, m := range pages[message](s, runs+"/"+id+"/messages", 500) {
		if m.Role == role && m.Content == content {
			n++
		}
	}
	return n
}

// said checks that the run said something once.
func (s *server) said(id, content string) {
	s.Helper()
	if n := s.has(id, "assistant", content); n != 1 {
		s.Errorf("%q was said %d times, want once", content, n)
	}
}

// numbered checks that a run's steps are over, and numbered from 1 over all generations.
func (s *server) numbered(id string) {
	s.Helper()
	for i, st := range pages[step](s, runs+"/"+id+"/steps", 3) {
		if st.StepNumber != i+1 || st.CompletedAt == nil {
			s.Errorf("step %d is %+v", i+1, st)
		}
	}
}
