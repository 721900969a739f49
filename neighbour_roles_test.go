package baton_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
)

// Requests for the owner's things on a socket and with tools, and the answers to user, viewer, operator and admin of the same project:
// an error code, or done.
var (
	onSockets = []struct{ frame, roles string }{
		{`{"op":"subscribe","ref":1,"threadId":"{thread}"}`, "not_found not_found not_found not_found"}, // the caller's own thread of that name
		{`{"op":"subscribe","ref":1,"threadId":"{conv}","afterEventId":1}`, "not_found done done done"},
		{`{"op":"subscribe","ref":1,"threadId":"{busyconv}","afterEventId":"latest"}`, "not_found done done done"},
		{`{"op":"append","ref":1,"runId":"{run}","content":"more"}`, "not_found forbidden done done"},
		{`{"op":"resume","ref":1,"runId":"{waiting}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`, "not_found forbidden done done"},
		{`{"op":"event","ref":1,"runId":"{busy}","name":"paid"}`, "not_found forbidden done done"},
		{`{"op":"cancel","ref":1,"runId":"{busy}"}`, "not_found forbidden done done"},
		{`{"op":"run","ref":1,"agent":"echo","threadId":"{conv}","content":"hi"}`, "done done done done"}, // a thread of the caller
		{`{"op":"unsubscribe","ref":1,"threadId":"{thread}"}`, "not_subscribed not_subscribed not_subscribed not_subscribed"},
		{`{"op":"unsubscribe","ref":1,"threadId":"{conv}"}`, "not_subscribed done done done"},
		{`{"op":"watch","ref":1}`, "done done done done"}, // for its messages see TestNeighbours_GetNoListUpdates
		{`{"op":"unwatch","ref":1}`, "done done done done"},
	}
	withTools = []struct{ name, arguments, roles string }{
		{"list_agents", `{}`, "done done done done"},
		{"list_agent_runs", `{"thread_id":"{conv}"}`, "not_found done done done"},
		{"get_agent_run_events", `{"conversation_id":"{conv}","run_id":"{run}"}`, "not_found done done done"},
		{"get_agent_run_snapshot", `{"conversation_id":"{conv}","run_id":"{run}"}`, "not_found done done done"},
		{"append_agent_message", `{"run_id":"{run}","content":"more"}`, "not_found forbidden done done"},
		{"resume_agent_run", `{"run_id":"{waiting}","resume":[{"interruptId":"{interrupt}","status":"resolved"}]}`, "not_found forbidden done done"},
		{"send_event", `{"run_id":"{busy}","name":"paid"}`, "not_found forbidden done done"},
		{"cancel_agent_run", `{"run_id":"{busy}"}`, "not_found forbidden done done"},
		{"start_agent_run", `{"agent":"echo","content":"x","thread_id":"{conv}"}`, "done done done done"},
	}
)

// Each role may do to the owner's things only the allowed operations.
func TestRoles_OnSocketsAndWithTools(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		there := s.offers()
		s.holds("sockets", fmt.Sprint(onSockets), there.commands)
		for _, c := range withTools {
			there.tools = slices.DeleteFunc(there.tools, func(name string) bool { return name == `"name":"`+c.name+`"` })
		}
		if len(there.tools) > 0 {
			s.Errorf("nobody with a role calls %q", there.tools)
		}
		for at, role := range []string{"user", "viewer", "operator", "admin"} {
			boss := "p1/boss-" + role + "/" + role
			_, theirs := s.settle("-ws-" + role)
			desk := s.desk(boss)
			for _, c := range onSockets {
				if got, want := desk.does(fill(c.frame, theirs)), strings.Fields(c.roles)[at]; got != want {
					s.Errorf("%s says %s: %s, want %s", role, c.frame, got, want)
				}
			}
			_, theirs = s.settle("-mcp-" + role)
			for _, c := range withTools {
				if got, want := s.calls(boss, c.name, fill(c.arguments, theirs)), strings.Fields(c.roles)[at]; got != want {
					s.Errorf("%s calls %s %s: %s, want %s", role, c.name, c.arguments, got, want)
				}
			}
		}
	})
}

// Users and an operator have runs with the same id. For the operator, who sees them all, the id means the operator's own run unless
// the request names another user.
func TestNames_SharedByUsers(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		const boss, admin = "p1/boss/operator", "p1/adam/admin"
		sleeps := `{"agent":"scripted","threadId":"main","runId":"same","content":"{\"do\":[{\"tool\":\"sleep\",\"args\":{\"ms\":600000}}]}"}`
		var threads []string
		for _, user := range []string{"p1/ann/user", "p1/ben/user", "p1/cid/user", boss} {
			threads = append(threads, s.must(user, "POST", "/api/v1/agent/runs", sleeps)["conversationId"].(string))
		}
		is := func(user, status string) {
			s.Helper()
			s.reach("p1/"+user, "same", status)
		}
		desk, foreign := s.desk(boss), s.desk(admin)
		if got := desk.does(`{"op":"cancel","ref":1,"runId":"same"}`); got != "done" {
			s.Errorf("an operator cancels a run of its own: %s", got)
		}
		is("boss/operator", "CANCELLED")
		is("ann/user", "RUNNING")
		if got := foreign.does(`{"op":"cancel","ref":1,"runId":"same"}`); got != "ambiguous_name" {
			s.Errorf("an admin cancels a run of somebody: %s", got)
		}
		if got := foreign.does(`{"op":"cancel","ref":1,"runId":"same","user":"ann"}`); got != "done" {
			s.Errorf("an admin cancels Ann's run: %s", got)
		}
		is("ann/user", "CANCELLED")
		if got := s.calls(admin, "cancel_agent_run", `{"run_id":"same"}`); got != "ambiguous_name" {
			s.Errorf("an admin calls for the end of somebody's run: %s", got)
		}
		if got := s.calls("p1/ann/user", "cancel_agent_run", `{"run_id":"same","user":"ben"}`); got != "forbidden" {
			s.Errorf("Ann calls for the end of Ben's run: %s", got)
		}
		if got := s.calls(admin, "cancel_agent_run", `{"run_id":"same","user":"ben"}`); got != "done" {
			s.Errorf("an admin calls for the end of Ben's run: %s", got)
		}
		is("ben/user", "CANCELLED")
		if got := s.must(boss, "POST", "/api/copilotkit/agent/scripted/stop/"+threads[2], `{}`)["stopped"]; got != true {
			s.Errorf("an operator stops Cid's thread: %v", got)
		}
		is("cid/user", "CANCELLED")
	})
}

// While the owner works and others watch the lists, only callers that may see the runs get updates.
func TestNeighbours_GetNoListUpdates(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		const owner = "p1/alice/user"
		var told, silent []desk
		for _, user := range []string{owner, "p1/vic/viewer", "p1/adam/admin", "p1/mallory/user", "p2/alice/user", "p3/vic/viewer", "p5/adam/admin"} {
			d := s.desk(user)
			d.does(`{"op":"watch","ref":1}`)
			if user == owner || strings.HasPrefix(user, "p1/") && !strings.HasSuffix(user, "/user") {
				told = append(told, d)
			} else {
				silent = append(silent, d)
			}
		}
		for range 3 { // the first update comes at once, others a little later
			run := s.must(owner, "POST", "/api/v1/agent/runs", `{"agent":"echo","threadId":"main","content":"`+secret+`"}`)["runId"].(string)
			s.reach(owner, run, "COMPLETED")
			for _, d := range told {
				if op := d.hears(); op != "changed" {
					s.Errorf("who sees the run is told %s", op)
				}
			}
		}
		for _, d := range silent {
			must(s, d.c.WriteMessage(websocket.TextMessage, []byte(`{"op":"unwatch","ref":2}`)))
			if op := d.hears(); op != "ack" {
				s.Errorf("who does not see the run is told %s", op)
			}
		}
	})
}

// desk is a socket that carries many threads. Events come between answers.
type desk struct {
	s site
	c *websocket.Conn
}

func (s site) desk(user string) desk {
	s.Helper()
	c, res, err := websocket.DefaultDialer.DialContext(s.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/api/v1/ws", http.Header{"User": {user}})
	must(s, err)
	_ = res.Body.Close()
	s.Cleanup(func() { _ = c.Close() })
	return desk{s, c}
}

// hears returns the op of the server's next message.
func (d desk) hears() string {
	d.s.Helper()
	_ = d.c.SetReadDeadline(time.Now().Add(patience))
	var said struct{ Op string }
	must(d.s, d.c.ReadJSON(&said))
	return said.Op
}

// does sends a command, and returns the code of its error, or done.
func (d desk) does(frame string) string {
	d.s.Helper()
	must(d.s, d.c.WriteMessage(websocket.TextMessage, []byte(frame)))
	for {
		_ = d.c.SetReadDeadline(time.Now().Add(patience))
		var answer struct {
			Op, Code string
			Ref      json.RawMessage
		}
		must(d.s, d.c.ReadJSON(&answer))
		switch {
		case answer.Ref == nil:
		case answer.Op == "ack":
			return "done"
		default:
			return answer.Code
		}
	}
}

// calls calls a tool, and returns the code of its error, or done.
func (s site) calls(user, name, arguments string) string {
	s.Helper()
	got := s.request(user, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`,
		"Accept", "application/json, text/event-stream")
	var answer struct {
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || len(answer.Result.Content) != 1 {
		s.Fatalf("%s: %d %s", name, got.status, got.body)
	}
	if !answer.Result.IsError {
		return "done"
	}
	var refusal struct{ Code string }
	_ = json.Unmarshal([]byte(answer.Result.Content[0].Text), &refusal)
	return refusal.Code
}
