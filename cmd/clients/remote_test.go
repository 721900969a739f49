package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
)

// pair is two Batons: the agent far of one is an agent of the other.
type pair struct {
	near, there *server
	thread      string
	runs        int
}

func startPair(t *testing.T, env ...string) *pair {
	t.Helper()
	there := start(t, env...)
	return &pair{near: startProgram(t, testBinary, "REMOTE_URL="+there.url("/api/v1/agui/scripted")), there: there, thread: t.Name()}
}

// turn runs far and returns its events.
func (p *pair) turn(t *testing.T, body object) []agui.Event {
	t.Helper()
	p.runs++
	body["threadId"], body["runId"], body["protocolVersion"] = p.thread, fmt.Sprint("run ", p.runs), "1.0"
	var list []agui.Event
	for _, raw := range p.near.post(t, "/api/v1/agui/far", body) {
		ev, err := agui.Decode(raw)
		if err != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		list = append(list, ev)
	}
	return list
}

// script returns a message for the agent scripted.
func script(ops string) object { return object{"content": `{"do":[` + ops + `]}`} }

// describe returns a short description of events.
func describe(events []agui.Event) string {
	var words []string
	for _, ev := range events {
		switch e := ev.(type) {
		case agui.TextMessageContent:
			words = append(words, strings.TrimSpace(e.Delta))
		case agui.ToolCallStart:
			words = append(words, "call:"+e.ToolCallName)
		case agui.ToolCallResult:
			words = append(words, "result:"+e.Content)
		case agui.StateDelta:
			words = append(words, "state:"+string(e.Delta))
		case agui.RunError:
			words = append(words, "error:"+e.Code)
		case agui.RunFinished:
			words = append(words, string(e.Outcome.Type))
		default:
		}
	}
	return strings.Join(words, " ")
}

func (p *pair) check(t *testing.T, events []agui.Event, want string) {
	t.Helper()
	if got := describe(events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRemote_IsAnotherBaton(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	p.check(t, p.turn(t, script(`{"say":"hello there"},{"tool":"calculator","args":{"expression":"6*7"}},{"state":{"n":{"m":1}}},{"say":"done"}`)),
		`hello there call:calculator result:42 state:[{"op":"add","path":"/n","value":{"m":1}}] done success`)
	p.check(t, p.turn(t, script(`{"state":{"n":{"m":2}}},{"say":"again"}`)), `state:[{"op":"replace","path":"/n/m","value":2}] again success`)
	p.check(t, p.turn(t, script(`{"fail":"no luck","code":"unlucky"}`)), `error:unlucky`)

	var history struct{ Messages []object }
	p.near.send(t, http.MethodGet, "/api/v1/threads/"+p.thread+"/messages", nil, &history)
	if n := len(history.Messages); n != 7 {
		t.Errorf("the thread has %d messages: %v", n, history.Messages)
	}
}

func TestRemote_FrontendToolsAndQuestions(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	tools := []object{{"name": "pick", "description": "Pick", "parameters": object{}}}
	ask := script(`{"say":"well"},{"tool":"pick","args":{"of":2}},{"say":"thanks"}`)
	ask["tools"] = tools
	first := p.turn(t, ask)
	end := first[len(first)-1].(agui.RunFinished)
	if len(end.Outcome.PendingToolCallIDs) != 1 || describe(first) != "well call:pick success" {
		t.Fatalf("got %s, %+v", describe(first), end)
	}
	p.check(t, p.turn(t, object{"tools": tools, "messages": []object{
		{"id": "answer", "role": "tool", "toolCallId": end.Outcome.PendingToolCallIDs[0], "content": "red"},
	}}), "thanks success")

	first = p.turn(t, script(`{"ask":{"message":"Deploy?"}},{"say":"deployed"}`))
	end = first[len(first)-1].(agui.RunFinished)
	if len(end.Outcome.Interrupts) != 1 || end.Outcome.Interrupts[0].Message != "Deploy?" {
		t.Fatalf("got %+v", end)
	}
	last := p.turn(t, object{"resume": []object{{"interruptId": end.Outcome.Interrupts[0].ID, "status": "resolved", "payload": object{"approved": true}}}})
	if got := describe(last); !strings.HasSuffix(got, "deployed success") {
		t.Errorf("got %s", got)
	}
	p.check(t, p.turn(t, script(`{"say":"and on"}`)), "and on success")
}

func TestRemote_IsCancelled(t *testing.T) {
	t.Parallel()
	p := startPair(t, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=50ms")
	var begun struct{ RunID string }
	p.near.send(t, http.MethodPost, "/api/v1/agent/runs", object{"agent": "far", "content": `{"do":[{"say":"well"},{"tool":"sleep","args":{"ms":60000}}]}`}, &begun)
	p.there.awaitRun(t, "RUNNING")
	p.near.send(t, http.MethodPost, "/api/projects/default/agent-runs/"+begun.RunID+"/cancel", nil, nil)
	p.near.awaitRun(t, "CANCELLED")
	p.there.awaitRun(t, "CANCELLED")
}

// A crash of either side loses neither the run nor a word of it.
func TestRemote_SurvivesKillsOfEitherSide(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]func(*pair) *server{
		"there": func(p *pair) *server { return p.there },
		"here":  func(p *pair) *server { return p.near },
	} {
		t.Run(name, func(t *testing.T) {
			p := startPair(t)
			p.thread = "main"
			var begun struct{ RunID string }
			p.near.send(t, http.MethodPost, "/api/v1/agent/runs", object{
				"agent": "far", "threadId": p.thread,
				"content": `{"do":[{"say":"one two"},{"tool":"sleep","args":{"ms":1500}},{"say":"three four"}]}`,
			}, &begun)
			p.near.awaitText(t, p.thread, "two")
			must(t, who(p).crash())
			p.near.awaitRun(t, "COMPLETED")
			var history struct{ Messages []agui.Message }
			p.near.send(t, http.MethodGet, "/api/v1/threads/"+p.thread+"/messages", nil, &history)
			last := history.Messages[len(history.Messages)-1]
			if last.Text() != "three four" {
				t.Errorf("the last message is %q of %d", last.Text(), len(history.Messages))
			}
			var runs struct{ Total int }
			p.there.send(t, http.MethodGet, "/api/projects/default/agent-runs?count=true", nil, &runs)
			if runs.Total != 1 {
				t.Errorf("the remote has %d runs", runs.Total)
			}
		})
	}
}

// send makes a request and reads the answer's JSON into out, which may be nil.
func (s *server) send(t *testing.T, method, path string, body, out any) {
	t.Helper()
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.url(path), strings.NewReader(string(raw)))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		t.Fatalf("%s %s: %s", method, path, res.Status)
	}
	if out == nil {
		return
	}
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
}

// awaitRun waits until the latest run has a status.
func (s *server) awaitRun(t *testing.T, status string) {
	t.Helper()
	var list struct{ Items []object }
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("runs", list.Items)
		}
	})
	until(t, status, func() bool {
		s.send(t, http.MethodGet, "/api/projects/default/agent-runs", nil, &list)
		if len(list.Items) > 0 && list.Items[0]["status"] == "FAILED" && status != "FAILED" {
			t.Fatal("the run has failed")
		}
		return len(list.Items) > 0 && list.Items[0]["status"] == status
	})
}

// awaitText waits until a thread's latest message contains text.
func (s *server) awaitText(t *testing.T, thread, text string) {
	t.Helper()
	until(t, "saying "+text, func() bool {
		var history struct{ Messages []agui.Message }
		s.send(t, http.MethodGet, "/api/v1/threads/"+thread+"/messages", nil, &history)
		return slices.ContainsFunc(history.Messages, func(m agui.Message) bool {
			return m.Role == agui.RoleAssistant && strings.Contains(m.Text(), text)
		})
	})
}
