package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
)

const project = "default"

func TestRunGoesToItsEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	started := s.start(map[string]any{"agent": "echo", "content": "hello there", "threadId": "a/b", "contextItemIds": []string{"ctx_1"}})
	if want := "/api/v1/agent/runs/a%2Fb/events?after_event_id=0"; started.EventsURL == nil || *started.EventsURL != want {
		t.Errorf("eventsUrl %v, want %s", started.EventsURL, want)
	}
	r := s.await(started.RunID, "COMPLETED")
	if r.ThreadID != "a/b" || r.ConversationID != started.ConversationID || r.InputQuery != "hello there" || r.WorkflowID != "echo" {
		t.Errorf("got %+v", r)
	}
	if r.OutputSummary == nil || *r.OutputSummary != "hello there" || r.FinishedAt == nil {
		t.Errorf("got %+v", r)
	}
}

func TestRunIsFoundByAnEscapedName(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	for _, name := range []string{"a/b", "a%2Fb", "50%", "ä ö", "a?b#c", "."} {
		s.start(map[string]any{"agent": "echo", "content": "x", "runId": name, "threadId": name})
		if name == "." {
			continue // no path can hold it
		}
		if got := s.await(name, "COMPLETED"); got.ID != name {
			t.Errorf("%q: got %q", name, got.ID)
		}
	}
}

// Every route refuses a run that is not there, one of another user, and a project that the caller does not hold,
// each in the same words.
func TestNobodyLearnsOfOthersRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	s.bobs(`{"do": [{"say": "secret"}]}`)
	for _, route := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"DELETE", "", ""},
		{"GET", "/steps", ""},
		{"GET", "/node-states", ""},
		{"GET", "/messages", ""},
		{"POST", "/messages", `{"content": "x"}`},
		{"POST", "/cancel", ""},
		{"POST", "/resume", `{"resume": [{"interruptId": "i", "status": "resolved"}]}`},
	} {
		var body any
		if route.body != "" {
			body = route.body
		}
		for _, id := range []string{"bobs", "nobodys", "0192d3a4-0000-7000-8000-000000000000", strings.Repeat("x", 201), "%00", "a%0Ab"} {
			s.do(route.method, runs+"/"+id+route.path, body).refused(404, "not_found", "Agent run not found")
		}
		s.do(route.method, "/api/projects/other/agent-runs/bobs"+route.path, body).refused(404, "not_found", "Project not found")
	}
	s.do("GET", "/api/projects/other/agent-runs", nil).refused(404, "not_found", "Project not found")
	s.do("POST", "/api/projects/other/agent-runs", `{"agent": "echo"}`).refused(404, "not_found", "Project not found")
	s.do("GET", runs+"?threadId=main", nil).refused(404, "not_found", "Thread not found")
	if page := as[page[run]](s.do("GET", runs, nil), 200); len(page.Items) != 0 || page.Total != 0 {
		t.Errorf("the list shows %+v", page)
	}
	s.start(map[string]any{"agent": "echo", "content": "mine", "threadId": "main", "runId": "bobs"})
	if r := s.await("bobs", "COMPLETED"); r.InputQuery != "mine" {
		t.Errorf("two users' runs of one name got mixed: %+v", r)
	}
}

func TestUserMayNotNameAnother(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	s.do("GET", runs+"?user=bob", nil).refused(403, "forbidden", "Your role may not do this with the runs of others")
	s.do("POST", runs+"/r/cancel?user=bob", nil).refused(403, "forbidden", "Your role may not do this with the runs of others")
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	s.start(map[string]any{"agent": "echo", "content": "x", "threadId": "t", "runId": "taken"})
	s.await("taken", "COMPLETED")
	long := strings.Repeat("x", 201)
	for name, test := range map[string]struct {
		body         string
		status       int
		code, detail string
	}{
		"nothing":          {``, 400, "invalid_json", "The request body is empty; send a JSON object"},
		"no JSON":          {`{`, 400, "invalid_json", "The request body is not valid JSON"},
		"wrong type":       {`{"agent": 1}`, 400, "invalid_request", "agent must be a string"},
		"no agent":         {`{"content": "x"}`, 400, "missing_agent", "Give an agent or a workflowId: the thread has had no run"},
		"two":              {`{"agent": "echo", "workflowId": "demo"}`, 400, "invalid_request", "Give agent or workflowId, not both"},
		"unknown agent":    {`{"agent": "nobody"}`, 404, "unknown_agent", `There is no agent or workflow "nobody"`},
		"unknown workflow": {`{"workflowId": "nothing"}`, 404, "unknown_workflow", `There is no agent or workflow "nothing"`},
		"agent's name":     {`{"workflowId": "echo"}`, 404, "unknown_workflow", `"echo" is an agent: name it in agent, not in workflowId`},
		"workflow's name":  {`{"agent": "demo"}`, 404, "unknown_agent", `"demo" is a workflow: name it in workflowId, not in agent`},
		"blank":            {`{"agent": "echo", "content": "\t"}`, 400, "invalid_content", "Message content must not be empty"},
		"both":             {`{"agent": "echo", "content": "x", "messages": []}`, 400, "invalid_request", "Give content or messages, not both"},
		"multitask":        {`{"agent": "echo", "multitask": "maybe"}`, 400, "invalid_request", "multitask must be enqueue, reject, interrupt or rollback"},
		"long thread":      {`{"agent": "echo", "threadId": "` + long + `"}`, 400, "invalid_name", "threadId must be 1 to 200 characters without control characters"},
		"run id":           {`{"agent": "echo", "runId": "a\u0000b"}`, 400, "invalid_name", "runId must be 1 to 200 characters without control characters"},
		"server tool":      {`{"agent": "echo", "tools": [{"name": "sleep"}]}`, 400, "invalid_tool", `The client tool "sleep" must have a name of 1 to 200 characters that no server tool or agent has`},
		"agent as tool":    {`{"agent": "echo", "tools": [{"name": "scripted"}]}`, 400, "invalid_tool", `The client tool "scripted" must have a name of 1 to 200 characters that no server tool or agent has`},
		"taken":            {`{"agent": "echo", "content": "y", "threadId": "t", "runId": "taken"}`, 409, "run_exists", `There is a run "taken" already`},
		"no question":      {`{"threadId": "t", "resume": [{"interruptId": "i", "status": "resolved"}]}`, 400, "unknown_interrupt", `There is no interrupt "i"`},
	} {
		t.Run(name, func(t *testing.T) {
			kit := *s.Server
			kit.TB = t
			s := &server{&kit, s.http}
			s.do("POST", runs, test.body).refused(test.status, test.code, test.detail)
		})
	}
	if page := as[page[run]](s.do("GET", runs+"?count=true", nil), 200); page.Total != 1 {
		t.Errorf("what was refused left %d runs", page.Total)
	}
}

func TestRepeatedRunIDIsAnsweredByItsRun(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	body := map[string]any{"agent": "echo", "content": "x", "threadId": "t", "runId": "r"}
	first := s.start(body)
	s.await("r", "COMPLETED")
	again := s.start(body)
	if again.RunID != first.RunID || *again.EventsURL != *first.EventsURL {
		t.Errorf("got %+v, then %+v", first, again)
	}
}

func TestUnknownMethodIs405(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	for path, allow := range map[string]string{
		runs: "GET, HEAD, POST", runs + "/r": "GET, HEAD, DELETE", runs + "/r/cancel": "POST", "/api/v1/agents": "GET, HEAD",
		runs + "/r/messages": "GET, HEAD, POST",
	} {
		a := s.do("PUT", path, `{}`)
		a.refused(405, "method_not_allowed", "This path does not take that method")
		if got := a.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow is %q, want %q", path, got, allow)
		}
	}
}

func TestBodyIsPlainJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	s.do("POST", runs, `agent=echo`, "Content-Type", "application/x-www-form-urlencoded").
		refused(415, "unsupported_media_type", "A request's body must have the Content-Type application/json")
	s.do("POST", runs, `{"agent": "echo"}`, "Content-Encoding", "gzip").
		refused(415, "unsupported_media_type", "A request's body must not be compressed")
	large := `{"agent": "echo", "state": {"pad": "` + strings.Repeat("x", 3<<20) + `"}}`
	as[run](s.do("POST", runs, large, "Content-Type", "application/json; charset=utf-8"), 202)
	s.do("POST", runs+"/r/messages", `{"content": "`+strings.Repeat("x", 3<<20)+`"}`).
		refused(413, "body_too_large", "The request's body is too large")
}

func TestOffers(t *testing.T) {
	t.Parallel()
	s := serve(t, runtime.Config{})
	offers := as[struct {
		Agents []struct{ Name, Description string }
		Tools  []struct {
			Name       string
			Parameters json.RawMessage
		}
	}](s.do("GET", "/api/v1/agents", nil), http.StatusOK)
	names := map[string]bool{}
	for _, a := range offers.Agents {
		names[a.Name] = a.Description != ""
	}
	for _, tool := range offers.Tools {
		names[tool.Name] = len(tool.Parameters) > 0
	}
	for _, want := range []string{"echo", "scripted", "sleep", "calculator"} {
		if !names[want] {
			t.Errorf("%s is missing or says nothing of itself", want)
		}
	}
	graphs := as[struct {
		Workflows []struct {
			Name  string
			Nodes []struct {
				ID          string
				Agent, Tool *string
				Needs       []string
			}
		}
	}](s.do("GET", "/api/v1/workflows", nil), http.StatusOK)
	if len(graphs.Workflows) != 1 || graphs.Workflows[0].Name != "demo" || len(graphs.Workflows[0].Nodes) != 4 {
		t.Fatalf("got %+v", graphs)
	}
	for _, n := range graphs.Workflows[0].Nodes {
		if n.Agent == nil || n.Tool != nil || n.Needs == nil {
			t.Errorf("got %+v", n)
		}
	}
}
