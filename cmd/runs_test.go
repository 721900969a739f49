package cmd_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/config"
)

// row returns the fields of the table's line for a run, nil if there is none.
func row(table, run string) []string {
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == run {
			return f
		}
	}
	return nil
}

func TestRunsCancelAnswer_OnRunningServer(t *testing.T) {
	db := database(t)
	s := serve(t, db)
	detached(t, s.URL(), `{"agent":"scripted","threadId":"t1","runId":"stuck","content":"{\"do\":[{\"say\":\"hello\"},{\"tool\":\"sleep\",\"args\":{\"ms\":600000}}]}"}`)
	detached(t, s.URL(), `{"agent":"scripted","threadId":"t2","runId":"asks","content":"{\"do\":[{\"ask\":{\"message\":\"Deploy?\"}},{\"say\":\"gone on\"}]}"}`)
	detached(t, s.URL(), `{"agent":"echo","threadId":"t3","runId":"over","content":"x"}`)
	detached(t, s.URL(), `{"agent":"echo","threadId":"t1","runId":"behind","content":"x"}`)
	find := func(run string, want []string, args ...string) string {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Minute); ; <-time.After(20 * time.Millisecond) {
			r := baton(t.Context(), append([]string{"runs", "--server", s.URL()}, args...)...).want(t, 0)
			got := strings.Join(row(r.stdout, run), " ")
			found := true
			for _, w := range want {
				found = found && strings.Contains(got, w)
			}
			if found {
				return r.stdout
			}
			if time.Now().After(deadline) {
				t.Fatalf("of %s want %q, got\n%s", run, want, r.stdout)
			}
		}
	}
	find("stuck", []string{"RUNNING", "scripted", "t1", "scripted", "TOOL_CALL_END", "s ago"})
	find("behind", []string{"QUEUED", "echo", "t1", "waits: thread_busy behind stuck"})
	out := find("asks", []string{"WAITING", "scripted waits", "RUN_FINISHED"})
	if row(out, "over") != nil {
		t.Errorf("an ended run is listed as open:\n%s", out)
	}
	find("over", []string{"COMPLETED"}, "--all")
	find("over", []string{"COMPLETED"}, "--status", "completed", "--since", "1h", "--agent", "echo")

	again := strings.TrimSpace(baton(t.Context(), "runs", "rerun", "over", "--server", s.URL()).want(t, 0).stdout)
	find(again, []string{"COMPLETED", "echo"}, "--all")
	if r := baton(t.Context(), "runs", "rerun", "over", "--from", "none", "--server", s.URL()).want(t, 1); !strings.Contains(r.stderr, "unknown_node") {
		t.Errorf("from a node that is not there: %s", r.stderr)
	}

	r := baton(t.Context(), "runs", "--database", db, "--json").want(t, 0) // finds the server by the database's lock
	for line := range strings.Lines(r.stdout) {
		var run struct {
			ID           string
			Status       string
			CurrentNodes []struct{ NodeID string }
			LastEvent    *struct{ Type string }
		}
		if err := json.Unmarshal([]byte(line), &run); err != nil || run.ID == "" {
			t.Fatalf("%v: %s", err, line)
		}
		if run.ID == "stuck" && (run.LastEvent == nil || run.LastEvent.Type != "TOOL_CALL_END" || len(run.CurrentNodes) != 1) {
			t.Errorf("got %s", line)
		}
	}

	r = baton(t.Context(), "cancel", "--server", s.URL(), "stuck", "nobody").want(t, 1)
	if r.stdout != "cancelled stuck\n" || !strings.Contains(r.stderr, "nobody: Agent run not found (404 not_found)") {
		t.Errorf("got %q and %q", r.stdout, r.stderr)
	}
	find("stuck", []string{"CANCELLED"}, "--all")
	if r := baton(t.Context(), "answer", "--server", s.URL(), "stuck", "--approve").want(t, 1); !strings.Contains(r.stderr, "stuck has no open questions; it is CANCELLED") {
		t.Errorf("got %q", r.stderr)
	}
	baton(t.Context(), "answer", "--server", s.URL(), "asks", "--payload", "{").want(t, 2)
	baton(t.Context(), "answer", "--server", s.URL(), "asks", "--approve", "--refuse").want(t, 2)
	detached(t, s.URL(), `{"agent":"scripted","threadId":"t4","runId":"typed","content":"{\"do\":[{\"ask\":{\"message\":\"Big?\",\"schema\":{\"properties\":{\"size\":{\"type\":\"integer\"}}}}}]}"}`)
	find("typed", []string{"WAITING"})
	r = baton(t.Context(), "answer", "--server", s.URL(), "typed", "--payload", `{"size":"x"}`).want(t, 1)
	if !strings.Contains(r.stderr, "? Big?\n  size (integer, optional)\n") || !strings.Contains(r.stderr, "does not fit") {
		t.Errorf("got %q", r.stderr)
	}
	if r := baton(t.Context(), "answer", "--server", s.URL(), "asks", "--payload", `{"yes":true}`).want(t, 0); r.stdout != "answered; asks continues\n" {
		t.Errorf("got %q", r.stdout)
	}
	find("asks", []string{"COMPLETED"}, "--all")
}

func TestRuns_ListsOldestFirst(t *testing.T) {
	s := serve(t, database(t))
	for _, run := range []string{"stuck", "later", "last"} {
		detached(t, s.URL(), `{"agent":"scripted","threadId":"`+run+`","runId":"`+run+`","content":"{\"do\":[{\"tool\":\"sleep\",\"args\":{\"ms\":600000}}]}"}`)
	}
	if r := baton(t.Context(), "runs", "--server", s.URL(), "--limit", "2").want(t, 0); row(r.stdout, "stuck") == nil || row(r.stdout, "last") != nil {
		t.Errorf("want the older two of three runs, got\n%s", r.stdout)
	}
}

func TestRuns_KeepsRunDeletedMeanwhile(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/agent-runs"): // a request for the run, which was deleted
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"detail":"Agent run not found","code":"not_found"}`))
		case r.URL.Query().Get("status") == "RUNNING":
			_, _ = w.Write([]byte(`{"items":[{"id":"gone","status":"RUNNING","workflowId":"echo","threadId":"t"}]}`))
		default:
			_, _ = w.Write([]byte(`{"items":[]}`))
		}
	}))
	defer s.Close()
	if r := baton(t.Context(), "runs", "--server", s.URL).want(t, 0); row(r.stdout, "gone") == nil {
		t.Errorf("got %q", r.stdout)
	}
}

func TestRuns_RetriesAfterRateLimit(t *testing.T) {
	refused := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/node-states") && refused == 0:
			refused++
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"detail":"Too many requests","code":"rate_limited"}`))
		case strings.HasSuffix(r.URL.Path, "/node-states"):
			_, _ = w.Write([]byte(`{"items":[{"nodeId":"answers","status":"RUNNING"}]}`))
		case !strings.HasSuffix(r.URL.Path, "/agent-runs"):
			_, _ = w.Write([]byte(`{"id":"busy","status":"RUNNING","workflowId":"echo","threadId":"t"}`))
		case r.URL.Query().Get("status") == "RUNNING":
			_, _ = w.Write([]byte(`{"items":[{"id":"busy","status":"RUNNING","workflowId":"echo","threadId":"t"}]}`))
		default:
			_, _ = w.Write([]byte(`{"items":[]}`))
		}
	}))
	defer s.Close()
	if r := baton(t.Context(), "runs", "--server", s.URL).want(t, 0); !strings.Contains(r.stdout, "answers") || refused != 1 {
		t.Errorf("got %q", r.stdout)
	}
}

func TestClient_SendsTokenOfEnvironment(t *testing.T) {
	t.Chdir(t.TempDir())
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"detail":"Who are you?","code":"unauthorized"}`))
	}))
	defer s.Close()
	t.Setenv("BATON_URL", s.URL+"/")
	t.Setenv("BATON_TOKEN", secret)
	for _, args := range []string{"runs --project p1", "cancel r --project p1", "answer r --approve --project p1"} {
		r := baton(t.Context(), strings.Fields(args)...).want(t, 1)
		if !strings.Contains(r.stderr, "Who are you?") || strings.Contains(r.stderr+r.stdout, secret) {
			t.Errorf("%s: %s", args, r.stderr)
		}
	}
	baton(t.Context(), "run", "echo", "hello", "--server", s.URL).want(t, 1)
	want := []string{
		"/api/projects/p1/agent-runs Bearer " + secret, "/api/projects/p1/agent-runs/r/cancel Bearer " + secret,
		"/api/projects/p1/agent-runs/r Bearer " + secret, "/api/v1/agent/runs Bearer " + secret,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Runs of several users may have the same id. An operator can list, cancel and answer each of them.
func TestRuns_DistinguishesUsers(t *testing.T) {
	db := database(t)
	auth := config.Default().Auth
	auth.Mode, auth.TestPlugins = config.AuthAPIKey, true
	s := serveWithAuth(t, db, auth)
	key := func(user, role string) string {
		r := baton(t.Context(), "keys", "create", "--database", db, "--user", user, "--project", "p1", "--role", role).want(t, 0)
		return strings.TrimSpace(r.stdout)
	}
	for _, user := range []string{"ann", "bob", "olga"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/api/v1/agent/runs",
			strings.NewReader(`{"agent":"scripted","runId":"same","threadId":"main","content":"{\"do\":[{\"ask\":{\"message\":\"Deploy?\"}}]}"}`))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+key(user, "user"))
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusAccepted {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
	}
	t.Setenv("BATON_TOKEN", key("olga", "operator"))
	at := []string{"--server", s.URL(), "--project", "p1"}
	status := func(user string) string {
		t.Helper()
		for line := range strings.SplitSeq(baton(t.Context(), append([]string{"runs", "--all"}, at...)...).want(t, 0).stdout, "\n") {
			if f := strings.Fields(line); len(f) > 2 && f[0] == user && f[1] == "same" {
				return f[2]
			}
		}
		return ""
	}
	until := func(user, want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); status(user) != want; <-time.After(200 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the run of %s is %q, want %s", user, status(user), want)
			}
		}
	}
	for _, user := range []string{"ann", "bob", "olga"} {
		until(user, "WAITING")
	}
	open := baton(t.Context(), append([]string{"runs"}, at...)...).want(t, 0).stdout
	if strings.Count(open, "scripted waits") != 3 {
		t.Errorf("want all three runs with their steps, got\n%s", open)
	}
	baton(t.Context(), append([]string{"answer", "same", "--payload", "1", "--user", "ann"}, at...)...).want(t, 0)
	until("ann", "COMPLETED")
	baton(t.Context(), append([]string{"cancel", "same", "--user", "bob"}, at...)...).want(t, 0)
	until("bob", "CANCELLED")
	until("olga", "WAITING")
}
