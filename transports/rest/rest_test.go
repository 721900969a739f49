package rest_test

import (
	"strings"
	"testing"
)

const project = "default"

func TestRunIsFoundByAnEscapedName(t *testing.T) {
	t.Parallel()
	s := serve(t)
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

func TestUserMayNotNameAnother(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do("GET", runs+"?user=bob", nil).refused(403, "forbidden", "Your role may not do this with the runs of others")
	s.do("POST", runs+"/r/cancel?user=bob", nil).refused(403, "forbidden", "Your role may not do this with the runs of others")
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	s := serve(t)
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

func TestUnknownMethodIs405(t *testing.T) {
	t.Parallel()
	s := serve(t)
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
