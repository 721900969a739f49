package rest_test

import (
	"encoding/json"
	"testing"
)

// Through the run's own route or as a new request on its thread, an answer continues the same run, which has
// one name more then.
func TestAnswerGivesARunAnotherName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first := s.start(map[string]any{
		"agent": "scripted", "threadId": "t", "runId": "one", "content": `{"do": [{"ask": {"message": "Deploy?"}}, {"say": "deployed"}]}`,
	})
	r := s.await("one", "WAITING")
	body := map[string]any{"threadId": "t", "runId": "two", "agent": "scripted", "resume": []any{
		map[string]any{"interruptId": r.Interrupts[0].ID, "status": "resolved", "payload": map[string]any{"approved": true}},
	}}
	second := s.start(body)
	if second.RunID != "two" || second.ConversationID != first.ConversationID {
		t.Errorf("got %+v", second)
	}
	if done := s.await("two", "COMPLETED"); done.ID != "one" || done.Generation != 1 {
		t.Errorf("got %+v", done)
	}
	s.said("two", "deployed")
	for _, m := range pages[message](s, runs+"/two/messages", 1) {
		if m.RunID != "one" {
			t.Errorf("got %+v", m)
		}
	}
	if got := pages[run](s, runs, 50); len(got) != 1 {
		t.Errorf("%d runs, want 1", len(got))
	}
	s.do("POST", runs, map[string]any{"threadId": "t", "resume": body["resume"]}).
		refused(409, "already_answered", sprint("The interrupt %q has been answered already", r.Interrupts[0].ID))
}

func TestMultitask(t *testing.T) {
	t.Parallel()
	s := serve(t)
	old := s.blocker("t")
	next := map[string]any{"agent": "echo", "threadId": "t", "content": "next", "multitask": "reject"}
	s.do("POST", runs, next).refused(409, "thread_busy", "The thread has a run that is queued or running")
	delete(next, "multitask")
	queued := s.start(next)
	if queued.Status != "QUEUED" {
		t.Errorf("got %+v", queued)
	}
	next["multitask"] = "interrupt"
	s.await(s.start(next).RunID, "COMPLETED")
	for _, id := range []string{old, queued.RunID} {
		if r := s.get(id); r.Status != "CANCELLED" {
			t.Errorf("got %+v", r)
		}
	}
}

// Whatever text a client sends, NUL and all, it is taken and comes back as it was.
func TestTextComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, text := range []string{"a\x00b", "\x00", "\u2028 <&> \U0001F600 \x7f", "\ufffd", "line\r\nline"} {
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		a := s.do("POST", runs, `{"agent": "echo", "content": `+string(raw)+`, "contextItemIds": [`+string(raw)+`]}`)
		if a.Status != 202 {
			t.Errorf("%q: %d %s", text, a.Status, a.Body)
			continue
		}
		id := as[run](a, 202).RunID
		s.await(id, "COMPLETED")
		if got := pages[message](s, runs+"/"+id+"/messages", 10); got[0].Content != text || got[0].ContextItemIDs[0] != text {
			t.Errorf("%q came back as %+v", text, got[0])
		}
	}
}

// A worker's text is stored unchanged, too.
func TestWorkersTextComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s := serve(t)
	id := s.script(`{"say": "a\u0000b"}`)
	s.await(id, "COMPLETED")
	s.said(id, "a\x00b")
}
