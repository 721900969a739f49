package agui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
	"github.com/batonrun/baton/transports"
)

var interrupts = regexp.MustCompile(`"interrupts":\[{"id":"([^"]+)"`)

// sender is a client that holds a state, which it sends with each request and changes as the streams say that answer them.
type sender struct {
	s     *server
	state string
	runs  int
}

func (c *sender) say(t *testing.T, content string) (stream string) {
	t.Helper()
	c.runs++
	run := fmt.Sprint("run-", c.runs)
	text, _ := json.Marshal(content)
	body := fmt.Sprintf(`{"threadId": "main", "runId": %q, "state": %s, "tools": [], "messages": [{"id": "of-%s", "role": "user", "content": %s}]}`,
		run, c.state, run, text)
	stream = c.s.Do("POST", "/api/v1/agui/scripted", body).All()
	f := fold.New(json.RawMessage(c.state), nil)
	for _, ev := range events(t, stream) {
		if _, err := f.Apply(ev); err != nil {
			t.Fatalf("%s: %v in %s", ev.Type(), err, stream)
		}
	}
	c.state = string(f.State())
	return stream
}

// A client that sends another state than the thread's gets the thread's state.
func TestStateIsNotLostToAClientThatDoesNotHaveIt(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"{}", "null"} {
		s := serve(t, transports.StreamConfig{})
		other := &sender{s: s, state: "{}"}
		other.say(t, script(`{"state": {"keep": 1}}`))
		c := &sender{s: s, state: first, runs: 10}
		stream := c.say(t, script(`{"state": {"m": 1}}`))
		if frames := strings.SplitN(stream, "\n\n", 3); !strings.HasPrefix(frames[1], "event: STATE_SNAPSHOT\ndata: ") {
			t.Errorf("RUN_STARTED is followed by %s", frames[1])
		}
		if c.state != `{"keep":1,"m":1}` {
			t.Errorf("the client has %s", c.state)
		}
		if again := c.say(t, script(`{"state": {"n": 1}}`)); strings.Contains(again, "STATE_SNAPSHOT") || c.state != `{"keep":1,"m":1,"n":1}` {
			t.Errorf("a client that has the state got %s and has %s", again, c.state)
		}
		if got := s.connect("").All(); !strings.Contains(got, `"snapshot":{"keep":1,"m":1,"n":1}`) {
			t.Errorf("the thread has %s", got)
		}
		if log := s.Do("GET", "/api/v1/agent/runs/main/events", "").All(); strings.Contains(log, "STATE_SNAPSHOT") {
			t.Errorf("the log has it too: %s", log)
		}
	}
}

// A client without a state is given one before the deltas that apply to it, on a new thread too, by every door of these.
func TestState_IsGivenToAClientThatHasNone(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for path, wrap := range map[string]string{
		"/api/v1/agui/scripted":              "%s",
		"/api/copilotkit/agent/scripted/run": "%s",
		"/api/copilotkit":                    `{"method": "agent/run", "params": {"agentId": "scripted"}, "body": %s}`,
	} {
		for state, told := range map[string]bool{"": true, `"state": null,`: true, `"state": {},`: false, `"state": {"m": 1},`: false} {
			text, _ := json.Marshal(script(`{"state": {"n": 1}}`))
			body := fmt.Sprintf(`{%s "threadId": %q, "messages": [{"id": "m", "role": "user", "content": %s}]}`, state, path+state, text)
			frames := strings.SplitN(s.Do("POST", path, fmt.Sprintf(wrap, body)).All(), "\n\n", 3)
			if strings.HasPrefix(frames[1], `event: STATE_SNAPSHOT`+"\n"+`data: {"type":"STATE_SNAPSHOT","snapshot":{},`) != told {
				t.Errorf("%s with %q: RUN_STARTED is followed by %s", path, state, frames[1])
			}
		}
	}
}

// The state in an answer changes nothing, and the client gets the thread's state.
func TestStateOfAnAnswerIsMended(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	c := &sender{s: s, state: `{"n": 1}`}
	asked := c.say(t, script(`{"ask": {"message": "Deploy?"}}, {"state": {"m": 1}}`))
	resume := fmt.Sprintf(`, "resume": [{"interruptId": %q, "status": "resolved"}]`, interrupts.FindStringSubmatch(asked)[1])
	body := strings.Replace(turn("main", "b", "", resume), `"state": {}`, `"state": {"other": 1}`, 1)
	stream := s.Do("POST", "/api/v1/agui/scripted", body).All()
	if frames := strings.SplitN(stream, "\n\n", 3); !strings.HasPrefix(frames[1], "event: STATE_SNAPSHOT\ndata: ") || !strings.Contains(frames[1], `{"n":1}`) {
		t.Errorf("RUN_STARTED is followed by %s", frames[1])
	}
	if got := s.connect("").All(); !strings.Contains(got, `"snapshot":{"n":1,"m":1}`) {
		t.Errorf("the thread has %s", got)
	}
}

// A run queued behind one that changes the state begins with a snapshot of its state.
func TestStateIsTheOneThatAQueuedRunBeginsWith(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	first := s.run("scripted", "main", "a", script(`{"tool": "sleep", "args": {"ms": 50}}, {"state": {"n": 1}}`), "")
	first.Until("STEP_STARTED")
	second := s.run("echo", "main", "b", "hello", "").All()
	if !strings.Contains(second, "\n\nevent: STATE_SNAPSHOT\ndata: {\"type\":\"STATE_SNAPSHOT\",\"snapshot\":{\"n\":1},") {
		t.Errorf("got %s", second)
	}
}

// The sender of a message with an answer has it already; other viewers get it.
func TestMessageBesideAnAnswerIsNotToldToItsSender(t *testing.T) {
	t.Parallel()
	const pick = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	s := serve(t, transports.StreamConfig{})
	first := s.run("scripted", "main", "a", script(`{"tool": "pick", "args": {}}, {"say": "picked"}`), pick).All()
	id := calls.FindStringSubmatch(first)[1]
	body := turn("main", "b", `{"id": "r", "role": "tool", "toolCallId": "`+id+`", "content": "red"}, {"id": "more", "role": "user", "content": "and then"}`, pick)
	stream := s.Do("POST", "/api/v1/agui/scripted", body, "Idempotency-Key", "k").All()
	if strings.Contains(stream, `"more"`) || answer(t, stream) != "pickedand then" {
		t.Errorf("the sender got %s", stream)
	}
	if again := s.Do("POST", "/api/v1/agui/scripted", body, "Idempotency-Key", "k").All(); again != stream {
		t.Errorf("the sender who asks again got %s", again)
	}
	log := s.Do("GET", "/api/v1/agent/runs/main/events", "").All()
	told := 0
	for _, ev := range events(t, log) {
		switch e := ev.(type) {
		case agui.TextMessageStart:
			if e.MessageID == "more" && e.Role == agui.RoleUser {
				told++
			}
		case agui.TextMessageContent:
			if e.MessageID == "more" && e.Delta == "and then" {
				told++
			}
		}
	}
	if told != 2 {
		t.Errorf("others got %s", log)
	}
}

// guarded is a tool that a person approves.
type guarded struct{}

func (guarded) Info() plugins.Info { return plugins.Info{Name: "guarded", Approval: true} }

func (guarded) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "done"}, nil
}

// A client may send its own message for the call that it approves: it gets the result all the same.
func TestResult_OfAnApprovedCallIsToldToItsSender(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{}, guarded{})
	asked := s.run("scripted", "main", "a", script(`{"tool": "guarded", "args": {}}, {"say": "after"}`), "").All()
	body := turn("main", "b", `{"id": "r", "role": "tool", "toolCallId": "`+calls.FindStringSubmatch(asked)[1]+`", "content": "approved"}`,
		fmt.Sprintf(`, "resume": [{"interruptId": %q, "status": "resolved", "payload": {"approved": true}}]`, interrupts.FindStringSubmatch(asked)[1]))
	for _, which := range []string{"first", "repeated"} {
		if stream := s.Do("POST", "/api/v1/agui/scripted", body, "Idempotency-Key", "k").All(); !strings.Contains(stream, `"content":"done"`) {
			t.Errorf("the %s answer is %s", which, stream)
		}
	}
}
