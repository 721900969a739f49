package baton_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
)

// reader is a client that reads lists.
type reader struct {
	*testing.T
	url, key string
}

// read makes a request, and returns the status and the answer.
func (r reader) read(method, path, body string) (int, string) {
	r.Helper()
	res := send(r.T, method, r.url+path, body, "Authorization", r.key, "Accept", "application/json, text/event-stream")
	return res.StatusCode, answer(r.T, res)
}

// next returns the cursor for a list's second page.
func (r reader) next(list string) string {
	r.Helper()
	status, text := r.read("GET", list+"?limit=1", "")
	var page struct{ NextCursor string }
	if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK || page.NextCursor == "" {
		r.Fatalf("%s: %d %s", list, status, text)
	}
	return page.NextCursor
}

// start starts a run, and waits until it has the status.
func (r reader) start(project, agent, name, content, status string) {
	r.Helper()
	body, _ := json.Marshal(map[string]string{"agent": agent, "threadId": "of " + name, "runId": name, "content": content})
	if got, text := r.read("POST", "/api/projects/"+project+"/agent-runs", string(body)); got != http.StatusAccepted {
		r.Fatalf("%s: %d %s", name, got, text)
	}
	r.await(project, name, status)
}

func (r reader) await(project, run, status string) {
	r.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(2 * time.Millisecond) {
		_, text := r.read("GET", "/api/projects/"+project+"/agent-runs/"+run, "")
		if strings.Contains(text, `"status":"`+status+`"`) {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("%s is not %s: %s", run, status, text)
		}
	}
}

// as returns a reader with a key for a role in a project.
func as(t *testing.T, s *baton.Server, user, project string, role runtime.Role) reader {
	t.Helper()
	text, _, err := s.CreateAPIKey(t.Context(), user, []string{project}, role, time.Time{})
	must(t, err)
	return reader{t, s.URL(), "Bearer " + text}
}

// The cursor of every list is opaque, works only in its list, survives a restart, and cannot be forged.
func TestCursor_IsSealed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		alice, stranger := as(t, s, "alice", "p1", runtime.RoleAdmin), as(t, s, "mallory", "p2", runtime.RoleUser)
		const ask = `{"do": [{"ask": {"message": "Go on?"}}]}`
		alice.start("p1", "echo", "one", "hello", "COMPLETED")
		stranger.start("p2", "echo", "theirs", "hello", "COMPLETED")
		alice.start("p1", "scripted", "asks", ask, "WAITING")
		alice.start("p1", "scripted", "asks too", ask, "WAITING")
		as(t, s, "bob", "p1", runtime.RoleUser).start("p1", "echo", "bobs", "hello", "COMPLETED")
		if status, text := alice.read("POST", "/api/projects/p1/agent-runs/one/messages", `{"content": "more"}`); status != http.StatusCreated {
			t.Fatal(text)
		}
		alice.await("p1", "one", "COMPLETED")

		const runs = "/api/projects/p1/agent-runs"
		pages := map[string]string{
			runs: "", runs + "/one/steps": "", runs + "/one/messages": "", "/api/v1/threads": "", "/api/projects/p1/threads": "", "/api/projects/p1/users": "",
			"/api/projects/p1/interrupts": "", "/api/projects/p1/audit": "", "/api/projects/p1/keys": "",
		}
		cursors := make(map[string]string)
		for list := range pages {
			cursors[list] = alice.next(list)
			if raw, err := base64.RawURLEncoding.DecodeString(cursors[list]); err != nil || len(raw) < 16+len("bob") {
				t.Errorf("%s: %q is too short for a seal, %v", list, cursors[list], err)
			}
			_, pages[list] = alice.read("GET", list+"?limit=1&cursor="+cursors[list], "")
		}
		run, err := s.Runtime().Runs.Get(t.Context(), runtime.MustCaller("p1", "alice", runtime.RoleAdmin), "asks too")
		must(t, err)
		forged := summed(fmt.Sprintf("runs %q %q %q %q %q %d %d %d %q %v", "p1", "alice", []runtime.Status(nil), "", "", 0,
			time.Time{}.UnixMilli(), time.Time{}.UnixMilli(), "", false), run.Key)
		must(t, s.Shutdown(context.Background()))

		alice.url = openWithKeys(t, database).URL()
		for list, want := range pages {
			if status, got := alice.read("GET", list+"?limit=1&cursor="+cursors[list], ""); status != http.StatusOK || got != want {
				t.Errorf("%s after a restart: %d\n%s, it was\n%s", list, status, got, want)
			}
			for other, cursor := range cursors {
				if other == list {
					continue
				}
				if status, got := alice.read("GET", list+"?cursor="+cursor, ""); status != http.StatusBadRequest || !strings.Contains(got, `"invalid_cursor"`) {
					t.Errorf("%s with the cursor of %s: %d %s", list, other, status, got)
				}
			}
		}
		if status, got := alice.read("GET", runs+"?cursor="+forged, ""); status != http.StatusBadRequest || !strings.Contains(got, `"invalid_cursor"`) {
			t.Errorf("a forged cursor: %d %s", status, got)
		}
		for cursor, want := range map[string]string{cursors[runs]: `\"id\":\"asks too\"`, forged: "invalid_cursor"} {
			status, got := alice.read("POST", "/mcp", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agent_runs", "arguments": {"limit": 1, "cursor": "`+cursor+`"}}}`)
			if status != http.StatusOK || !strings.Contains(got, want) {
				t.Errorf("MCP with %s: %d %s", cursor, status, got)
			}
		}
	})
}

// A cursor of the unfiltered list is refused with each of the filters that the OpenAPI document names.
func TestCursor_WorksOnlyWithItsFilters(t *testing.T) {
	t.Parallel()
	s := openWithKeys(t, "", modelled())
	alice := as(t, s, "alice", "p1", runtime.RoleAdmin)
	const ask = `{"do": [{"ask": {"message": "Go on?"}}]}`
	alice.start("p1", "echo", "one", "hello", "COMPLETED")
	alice.start("p1", "modelled", "models", `"x"`, "COMPLETED")
	alice.start("p1", "scripted", "asks", ask, "WAITING")
	alice.start("p1", "scripted", "asks too", ask, "WAITING")
	as(t, s, "bob", "p1", runtime.RoleUser).start("p1", "echo", "bobs", "hello", "COMPLETED")
	for _, run := range []string{"one", "models"} {
		if status, text := alice.read("POST", "/api/projects/p1/agent-runs/"+run+"/messages", `{"content": "more"}`); status != http.StatusCreated {
			t.Fatal(text)
		}
		alice.await("p1", run, "COMPLETED")
	}

	values := map[string]string{
		"status": "COMPLETED", "agent": "echo", "workflowId": "echo", "threadId": "of one", "since": "2024-01-01T00:00:00Z", "until": "2124-01-01T00:00:00Z",
		"q": "o", "tag": "red", "metadata.name": "o", "order": "oldest", "user": "alice", "archived": "false", "actor": "alice", "action": "start", "run": "one", "nodeId": "o",
		"agentId": "echo", "includeArchived": "true",
	}
	_, text := alice.read("GET", "/openapi.json", "")
	var document struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct{ Name, In string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(text), &document))
	lists := 0
	for path, of := range document.Paths {
		var filters []string
		paged := false
		for _, p := range of.Get.Parameters {
			switch {
			case p.In != "query" || p.Name == "limit" || p.Name == "count" || p.Name == "projectId":
			case p.Name == "cursor":
				paged = true
			default:
				filters = append(filters, p.Name)
			}
		}
		if !paged {
			continue
		}
		lists++
		run := "one"
		if strings.HasSuffix(path, "/model-calls") {
			run = "models"
		}
		list := strings.NewReplacer("{projectId}", "p1", "{runId}", run).Replace(path)
		cursor := alice.next(list)
		for _, name := range filters {
			if values[name] == "" {
				t.Errorf("%s has the parameter %s; add a value for it to this test", path, name)
				continue
			}
			status, got := alice.read("GET", list+"?"+url.Values{"cursor": {cursor}, name: {values[name]}}.Encode(), "")
			if status != http.StatusBadRequest || !strings.Contains(got, `"invalid_cursor"`) {
				t.Errorf("%s with %s and the cursor without: %d %s", list, name, status, got)
			}
		}
	}
	if lists < 9 {
		t.Errorf("the document names %d lists", lists)
	}
}

func TestResetSecrets_VoidsCursorsAndTickets(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		alice := as(t, s, "alice", "p1", runtime.RoleUser)
		alice.start("p1", "echo", "one", "hello", "COMPLETED")
		alice.start("p1", "echo", "two", "hello", "COMPLETED")
		const list, stream = "/api/v1/threads", "/api/v1/agent/runs/of%20one/events"
		cursor := alice.next(list)
		ticket, _ := ticketFor(t, s, alice.key, stream)
		must(t, s.ResetSecrets(t.Context()))
		if status, got := alice.read("GET", list+"?cursor="+cursor, ""); status != http.StatusBadRequest || !strings.Contains(got, `"invalid_cursor"`) {
			t.Errorf("an old cursor: %d %s", status, got)
		}
		if got := status(t, "GET", s.URL()+stream+"?ticket="+ticket); got != http.StatusUnauthorized {
			t.Errorf("an old ticket: %d", got)
		}
		if status, got := alice.read("GET", list+"?cursor="+alice.next(list), ""); status != http.StatusOK {
			t.Errorf("a new cursor: %d %s", status, got)
		}
	})
}

// summed returns an unsealed cursor with a checksum.
func summed(list string, key int64) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64([]byte("baton cursor\x00"), uint64(key)), list...))
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint(append([]byte{1}, sum[:8]...), uint64(key)))
}
