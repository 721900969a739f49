package agui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/transports"
)

const kit = "/api/copilotkit"

// both sends a request that the path and the single endpoint answer alike.
func (s *server) both(method, path, call, params, body string) []*response {
	s.Helper()
	if params == "" {
		params = "{}"
	}
	envelope := fmt.Sprintf(`{"method": %q, "params": %s}`, call, params)
	if body != "" {
		envelope = fmt.Sprintf(`{"method": %q, "params": %s, "body": %s}`, call, params, body)
	}
	return []*response{s.Do(method, kit+path, body), s.Do("POST", kit, envelope)}
}

func TestKitListsAgentsAndWorkflows(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, r := range s.both("GET", "/info", "info", "", "") {
		var info struct {
			Version, Mode string
			Agents        map[string]struct {
				Name, Description, ClassName string
				Capabilities                 map[string]any
			}
			ThreadEndpoints map[string]bool
		}
		if err := json.Unmarshal([]byte(r.All()), &info); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%d %v", r.StatusCode, err)
		}
		if info.Mode != "sse" || info.Version == "" || !info.ThreadEndpoints["inspect"] || !info.ThreadEndpoints["mutations"] {
			t.Errorf("got %+v", info)
		}
		for _, name := range []string{"echo", "demo"} {
			if a := info.Agents[name]; a.Name != name || a.ClassName == "" || a.Capabilities["transport"] == nil {
				t.Errorf("%s: got %+v", name, a)
			}
		}
	}
}

func TestKitRunsAndConnects(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for i, path := range []string{kit + "/agent/echo/run", kit} {
		thread := fmt.Sprint("t", i)
		body := input(thread, thread, "hello there", "")
		if path == kit {
			body = `{"method": "agent/run", "params": {"agentId": "echo"}, "body": ` + body + `}`
		}
		if got := s.Do("POST", path, body).All(); answer(t, got) != "hello there" {
			t.Errorf("got %s", got)
		}
		for _, r := range s.both("POST", "/agent/echo/connect", "agent/connect", `{"agentId": "echo"}`, turn(thread, "joins", "", `, "lastSeenEventId": null`)) {
			if got := folded(t, r.All()); len(got.Messages) != 2 || !strings.Contains(got.Messages[1], "hello there") {
				t.Errorf("got %+v", got)
			}
		}
	}
	for _, r := range s.both("POST", "/agent/echo/connect", "agent/connect", `{"agentId": "echo"}`, turn("nowhere", "joins", "", "")) {
		if got := r.All(); r.StatusCode != http.StatusOK || got != "" {
			t.Errorf("an unknown thread gave %d %s", r.StatusCode, got)
		}
	}
}

func TestKitStops(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	stop := func(thread, body string) string {
		return s.Do("POST", kit+"/agent/typist/stop/"+thread, body).All()
	}
	const none = `{"message":"The thread has no such run that is queued or running","stopped":false}`
	const done = `{"interrupt":{"code":"STOPPED","message":"Run stopped by user","type":"RUN_ERROR"},"stopped":true}`
	owner := s.typing()
	queued := s.run("echo", "main", "b", "hello", "")
	if queued.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", queued.StatusCode, queued.All())
	}
	for body, want := range map[string]string{`{"runId": "nobody"}`: none, `{"runId": "b"}`: done} {
		if got := stop("main", body); got != want {
			t.Errorf("%s: got %s", body, got)
		}
	}
	if got := queued.All(); !strings.Contains(got, `"code":"CANCELLED"`) {
		t.Errorf("the queued run ended with %s", got)
	}
	other := s.run("echo", "main", "c", "hello", "")
	if got := stop("main", ""); got != done {
		t.Errorf("got %s", got)
	}
	for _, r := range []*response{owner, other} {
		if got := r.All(); !strings.Contains(got, `"code":"CANCELLED"`) {
			t.Errorf("a run of the thread ended with %s", got)
		}
	}
	for _, thread := range []string{"main", "nowhere"} {
		if got := stop(thread, ""); got != none {
			t.Errorf("got %s", got)
		}
	}
	s.Do("POST", kit+"/agent/nobody/stop/main", "").Refused(http.StatusNotFound, "unknown_agent")
	single := s.Do("POST", kit, `{"method": "agent/stop", "params": {"agentId": "echo", "threadId": "main"}}`).All()
	if single != none {
		t.Errorf("got %s", single)
	}
}

func TestKitShowsThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.run("scripted", "a/b", "x", script(`{"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "ok"}`), "").All()
	for part, want := range map[string]string{"messages": `"name":"calculator","args":"{`, "events": `"type":"RUN_FINISHED"`, "state": `{"state":{"n":1}}`} {
		path := "/threads/a%2Fb/" + part
		for _, r := range s.both("GET", path, "resource/request", `{"path": "`+path+`", "httpMethod": "GET"}`, "") {
			if got := r.All(); r.StatusCode != http.StatusOK || !strings.Contains(got, want) || !strings.HasPrefix(got, `{"`+part+`":`) {
				t.Errorf("%s: got %d %s", part, r.StatusCode, got)
			}
		}
	}
	for _, r := range s.both("GET", "/threads/nowhere/state", "resource/request", `{"path": "/threads/nowhere/state", "httpMethod": "GET"}`, "") {
		r.Refused(http.StatusNotFound, "not_found")
	}
	s.Do("GET", kit+"/threads/a%2Fb/secrets", "").Refused(http.StatusNotFound, "not_found")
}

func TestKitShowsTheLatestEventsThatFit(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, run := range []string{"a", "b", "c"} {
		s.run("echo", "main", run, run+strings.Repeat("x", 1<<20), "").All()
	}
	got := s.Do("GET", kit+"/threads/main/events", "").All()
	var list struct{ Events []json.RawMessage }
	if err := json.Unmarshal([]byte(got), &list); err != nil || len(got) > 9<<20 || len(got) < 3<<20 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if last := string(list.Events[len(list.Events)-1]); !strings.Contains(last, `"runId":"c"`) || !strings.Contains(last, "RUN_FINISHED") {
		t.Errorf("the last is %s", brief(last))
	}
}

func TestKitPagesThroughThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for i := range 7 {
		agent := []string{"echo", "scripted"}[i%2]
		s.run(agent, fmt.Sprint("t", i), fmt.Sprint("r", i), "hello", "").All()
	}
	read := func(query string) (ids []string) {
		for cursor := ""; ; {
			path := "/threads?limit=2&" + query + cursor
			var next [2]*string
			for i, r := range s.both("GET", path, "resource/request", `{"path": "`+path+`", "httpMethod": "GET"}`, "") {
				var page struct {
					Threads []struct {
						ID, AgentID, OrganizationID, CreatedByID, CreatedAt, UpdatedAt string
						Name                                                           *string
					}
					NextCursor *string
				}
				if err := json.Unmarshal([]byte(r.All()), &page); err != nil || r.StatusCode != http.StatusOK || len(page.Threads) > 2 {
					t.Fatalf("%d %v", r.StatusCode, err)
				}
				next[i] = page.NextCursor
				for _, th := range page.Threads {
					if th.OrganizationID != local.Project() || th.CreatedByID != local.User() || th.CreatedAt == "" || th.UpdatedAt == "" || th.Name != nil {
						t.Errorf("got %+v", th)
					}
					if i == 0 {
						ids = append(ids, th.ID+" "+th.AgentID)
					}
				}
			}
			if diff := cmp.Diff(next[0], next[1]); diff != "" {
				t.Error(diff)
			}
			if next[0] == nil {
				return ids
			}
			cursor = "&cursor=" + *next[0]
		}
	}
	for query, want := range map[string][]string{
		"":                                      {"t6 echo", "t5 scripted", "t4 echo", "t3 scripted", "t2 echo", "t1 scripted", "t0 echo"},
		"agentId=scripted&includeArchived=true": {"t5 scripted", "t3 scripted", "t1 scripted"},
		"agentId=nobody":                        nil,
	} {
		if diff := cmp.Diff(want, read(query)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, bad := range []string{"limit=0", "limit=x", "cursor=x", "cursor=x.y", "cursor=."} {
		if r := s.Do("GET", kit+"/threads?"+bad, ""); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", bad, r.StatusCode, r.All())
		}
	}
}

func TestKitChangesThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, single := range []bool{false, true} {
		call := func(method, path, body string) *response {
			if !single {
				return s.Do(method, kit+path, body)
			}
			envelope := fmt.Sprintf(`{"method": "resource/request", "params": {"path": %q, "httpMethod": %q}`, path, method)
			if body != "" {
				envelope += `, "body": ` + body
			}
			return s.Do("POST", kit, envelope+"}")
		}
		lists := func(query string) (ids []string) {
			var page struct {
				Threads []struct {
					ID       string
					Name     *string
					Archived bool
				}
			}
			if err := json.Unmarshal([]byte(call("GET", "/threads"+query, "").All()), &page); err != nil {
				t.Fatal(err)
			}
			for _, th := range page.Threads {
				if th.Name == nil {
					th.Name = new("unnamed")
				}
				ids = append(ids, fmt.Sprint(th.ID, " ", *th.Name, " ", th.Archived))
			}
			return ids
		}
		s.run("echo", "a/b", fmt.Sprint("x", single), "hello", "").All()
		s.run("echo", "c", fmt.Sprint("y", single), "hello", "").All()
		for _, step := range []struct {
			method, path, body string
			want, all          []string
		}{
			{"PATCH", "/threads/a%2Fb", `{"agentId": "echo", "name": "my talk"}`, []string{"c unnamed false", "a/b my talk false"}, nil},
			{"POST", "/threads/a%2Fb/archive", `{"agentId": "echo"}`, []string{"c unnamed false"}, []string{"c unnamed false", "a/b my talk true"}},
			{"PATCH", "/threads/a%2Fb", `{"archived": false}`, []string{"c unnamed false", "a/b my talk false"}, nil},
			{"PATCH", "/threads/a%2Fb", `{"name": null}`, []string{"c unnamed false", "a/b unnamed false"}, nil},
			{"POST", "/threads/c/archive", "", []string{"a/b unnamed false"}, []string{"c unnamed true", "a/b unnamed false"}},
			{"DELETE", "/threads/a%2Fb", `{"agentId": "echo"}`, nil, []string{"c unnamed true"}},
			{"DELETE", "/threads/c", "", nil, nil},
		} {
			if r := call(step.method, step.path, step.body); r.StatusCode != http.StatusOK && r.StatusCode != http.StatusNoContent {
				t.Errorf("%s %s: %d %s", step.method, step.path, r.StatusCode, r.All())
			}
			if step.all == nil {
				step.all = step.want
			}
			if diff := cmp.Diff([][]string{step.want, step.all}, [][]string{lists(""), lists("?includeArchived=true&agentId=echo")}); diff != "" {
				t.Errorf("after %s %s %s: %s", step.method, step.path, step.body, diff)
			}
		}
		for _, path := range []string{"PATCH /threads/c", "DELETE /threads/c", "POST /threads/c/archive"} {
			method, path, _ := strings.Cut(path, " ")
			call(method, path, "{}").Refused(http.StatusNotFound, "not_found")
		}
		s.run("echo", "c", fmt.Sprint("z", single), "hello", "").All()
		for body, code := range map[string]string{`{"name": 1}`: "invalid_request", `{"archived": "x"}`: "invalid_request", `{"name": "a\u0000"}`: "invalid_title", `[]`: "invalid_request"} {
			call("PATCH", "/threads/c", body).Refused(http.StatusBadRequest, code)
		}
		call("DELETE", "/threads/c", "")
	}
}

func TestKitRefusesOtherCalls(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for body, code := range map[string]string{
		`{"method": "agent/fly"}`: "unknown_method",
		`{"method": 1}`:           "invalid_request",
		`[]`:                      "invalid_request",
		`{"method": "agent/run", "params": {"agentId": "echo"}}`: "invalid_json",
	} {
		s.Do("POST", kit, body).Refused(http.StatusBadRequest, code)
	}
	for _, call := range []string{
		`"path": "/threads/x/state", "httpMethod": "DELETE"`, `"path": "/threads", "httpMethod": "DELETE"`, `"path": "/secrets", "httpMethod": "GET"`,
		`"path": "/threads/x/fly", "httpMethod": "POST"`, `"path": "/threads/x", "httpMethod": "GET"`, `"path": "/threads"`, `"path": "/threads/", "httpMethod": "PATCH"`,
	} {
		s.Do("POST", kit, `{"method": "resource/request", "params": {`+call+`}}`).Refused(http.StatusNotFound, "not_found")
	}
	s.Do("POST", kit, `{"method": "agent/run", "params": {"agentId": "nobody"}, "body": {"content": "x"}}`).Refused(http.StatusNotFound, "unknown_agent")
}
