package rest_test

import (
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Through the run's own route or as a new request on its thread, an answer continues the same run, which has
// one name more then.
func TestAnswerGivesARunAnotherName(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
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
	s := serve(t, runtime.Config{})
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

// A repeat has no effect, even with multitask interrupt.
func TestRepeatInterruptsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	body := `{"agent": "scripted", "threadId": "t", "multitask": "interrupt", "content": "{\"do\": [{\"tool\": \"sleep\", \"args\": {\"ms\": 60000}}]}"}`
	id := as[run](s.do("POST", runs, body, "Idempotency-Key", "k"), 202).RunID
	if again := as[run](s.do("POST", runs, body, "Idempotency-Key", "k"), 202); again.RunID != id {
		t.Errorf("got %s, then %s", id, again.RunID)
	}
	if r := s.get(id); r.Status != "RUNNING" {
		t.Errorf("the repeat made it %s", r.Status)
	}
}

// A refused request has no effect, even with multitask interrupt.
func TestRefusalInterruptsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	id := s.blocker("t")
	a := s.do("POST", runs, `{"threadId": "t", "multitask": "interrupt", "resume": [{"interruptId": "i", "status": "resolved"}]}`)
	a.refused(400, "unknown_interrupt", `There is no interrupt "i"`)
	if r := s.get(id); r.Status != "RUNNING" {
		t.Errorf("the refused request made it %s", r.Status)
	}
}

// Whatever text a client sends, NUL and all, it is taken and comes back as it was.
func TestTextComesBackAsItWas(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
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
	s := serve(t, runtime.Config{})
	id := s.script(`{"say": "a\u0000b"}`)
	s.await(id, "COMPLETED")
	s.said(id, "a\x00b")
}

// A call that a client answers is answered by its id, like a question.
func TestFrontendCallIsAnsweredByResume(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	started := s.start(map[string]any{
		"agent": "scripted", "content": `{"do": [{"tool": "pick_color"}, {"say": "thanks"}]}`,
		"tools": []any{map[string]any{"name": "pick_color", "description": "d", "parameters": map[string]any{"type": "object"}}},
	})
	call := s.pendingCall(started.ConversationID)
	if r := s.await(started.RunID, "WAITING"); len(r.Interrupts) != 1 || r.Interrupts[0].ToolCallID != call {
		t.Errorf("got %+v, want the call %s", r.Interrupts, call)
	}
	path := runs + "/" + started.RunID + "/resume"
	s.do("POST", path, `{"resume": [{"interruptId": "other", "status": "resolved"}]}`).
		refused(400, "unknown_interrupt", `There is no interrupt "other"`)
	answer := sprint(`{"resume": [{"interruptId": %q, "status": "resolved", "payload": "red"}]}`, call)
	as[run](s.do("POST", path, answer), 202)
	s.await(started.RunID, "COMPLETED")
	s.said(started.RunID, "thanks")
	if n := s.has(started.RunID, "tool", "red"); n != 1 {
		t.Errorf("the result is there %d times", n)
	}
}

// pendingCall is the id of the call that the thread's log ends with.
func (s *server) pendingCall(thread string) (id string) {
	s.Helper()
	th, err := s.Runtime.Thread(s.Context(), runtime.MustCaller(project, "local", runtime.RoleUser), thread)
	if err != nil {
		s.Fatal(err)
	}
	cur, err := s.Runtime.Read(s.Context(), th, 0, false)
	if err != nil {
		s.Fatal(err)
	}
	defer cur.Close()
	for {
		recs, err := cur.Next(s.Context())
		if err != nil {
			return id // the log ends here
		}
		for _, rec := range recs {
			if call, ok := rec.Event.(agui.ToolCallStart); ok {
				id = call.ToolCallID
			}
		}
	}
}
