package baton_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// scrape returns the samples at a URL by their name with labels.
func scrape(t *testing.T, url string) map[string]string {
	t.Helper()
	res := send(t, "GET", url, "")
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, res.Status, err)
	}
	samples := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			samples[line[:i]] = line[i+1:]
		}
	}
	return samples
}

// eventually scrapes until each sample has the wanted value.
func eventually(t *testing.T, url string, want map[string]string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		got := scrape(t, url)
		var missing strings.Builder
		for name, value := range want {
			if got[name] != value {
				missing.WriteString(name + " is " + got[name] + ", want " + value + "\n")
			}
		}
		if missing.String() == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(missing.String())
		}
		<-time.After(50 * time.Millisecond)
	}
}

func TestMetrics_CountRuns(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0"})
	run := func(thread, content string) {
		res := send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"scripted","threadId":"`+thread+`","content":`+content+`}`, "Accept", "text/event-stream")
		answer(t, res)
	}
	run("a", `"hello"`)
	run("b", `"{\"do\":[{\"tool\":\"clock\"},{\"tool\":\"fail\",\"args\":{\"message\":\"no\"}},{\"fail\":\"boom\"}]}"`)
	run("c", `"{\"do\":[{\"ask\":{\"message\":\"?\"}}]}"`)
	send(t, "GET", s.URL()+"/api/v1/agent/runs/a/events", "")
	send(t, "GET", s.URL()+"/nothing/here/that-a-stranger-chose", "")
	eventually(t, s.URL()+"/metrics", map[string]string{
		`baton_runs{status="queued"}`:                                                      "0",
		`baton_runs{status="running"}`:                                                     "0",
		`baton_runs{status="waiting"}`:                                                     "1",
		`baton_run_duration_seconds_count{status="completed"}`:                             "1",
		`baton_run_duration_seconds_count{status="failed"}`:                                "1",
		`baton_run_first_event_seconds_count`:                                              "2", // the run that asks a question has no text
		`baton_run_queue_seconds_count`:                                                    "3",
		`baton_tool_call_duration_seconds_count{outcome="success"}`:                        "1",
		`baton_tool_call_duration_seconds_count{outcome="failure"}`:                        "1",
		`baton_fenced_writes_total`:                                                        "0",
		`baton_abandoned_total{kind="tool"}`:                                               "0",
		`baton_streams{kind="sse"}`:                                                        "0",
		`baton_http_requests_total{method="GET",route="none",status="404"}`:                "1",
		`baton_http_requests_total{method="POST",route="/api/v1/agent/runs",status="200"}`: "3",
	})
	got := scrape(t, s.URL()+"/metrics")
	for name := range got {
		if strings.Contains(name, "stranger") {
			t.Errorf("a client has created the label %s", name)
		}
	}
	moved(t, s.URL()+"/metrics", "go_goroutines", "process_open_fds")
}

// moved scrapes until each sample exists and is not 0.
func moved(t *testing.T, url string, names ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		got := scrape(t, url)
		still := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return got[name] != "" && got[name] != "0" })
		if len(still) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("these stay 0: %q", still)
		}
	}
}

// modelled returns an agent that sends its query to a model, and reports its usage.
func modelled() plugins.Agent {
	return plugins.AgentFunc("modelled", func(ctx context.Context, run *plugins.Run) error {
		call := plugins.ModelCall{Usage: agui.TokenUsage{Provider: "them", Model: "m", InputTokens: 3, OutputTokens: 2}}
		ctx, end := run.SendPrompt(ctx, &plugins.Prompt{
			System: []string{run.Input.Query}, Messages: []plugins.PromptMessage{{Message: agui.Message{Role: agui.RoleUser, Content: run.Input.Query}}},
		})
		end(call, &plugins.ModelAnswer{Text: run.Input.Query}, nil)
		return run.ModelCall(ctx, call)
	})
}

// waiting returns an agent that reports its call on called, and returns when let is closed.
func waiting(called chan<- struct{}, let <-chan struct{}) plugins.Agent {
	return plugins.AgentFunc("waiting", func(context.Context, *plugins.Run) error {
		called <- struct{}{}
		<-let
		return nil
	})
}

// TestMetrics_Move causes an event for each metric for operators.
func TestMetrics_Move(t *testing.T) {
	t.Parallel()
	called, let := make(chan struct{}), make(chan struct{})
	database := "sqlite:" + sqlitetest.New(t)
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", Database: database, Plugins: append(builtin.Plugins(), modelled(), waiting(called, let)),
		Tuning: baton.Tuning{Limits: baton.Limits{Runs: 1}, Timeouts: baton.Timeouts{Ping: 100 * time.Millisecond}},
	})
	url := s.URL() + "/metrics"
	start := func(thread, agent, content string) {
		send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"`+agent+`","threadId":"`+thread+`","content":`+content+`}`)
	}
	eventually(t, url, map[string]string{
		"baton_run_first_event_seconds_count": "0", "baton_run_queue_seconds_count": "0", "baton_replay_events_count": "0",
		"baton_queue_age_seconds": "0", "baton_fenced_writes_total": "0", "baton_readers_cut_total": "0",
	})
	start("main", "waiting", `"x"`)
	<-called
	start("next", "modelled", `"x"`)
	eventually(t, url, map[string]string{`baton_runs{status="running"}`: "1", `baton_runs{status="queued"}`: "1"})
	moved(t, url, "baton_queue_age_seconds")
	close(let)
	eventually(t, url, map[string]string{
		`baton_runs{status="running"}`: "0", `baton_runs{status="queued"}`: "0", "baton_queue_age_seconds": "0",
		`baton_provider_call_duration_seconds_count{model="m",outcome="success",provider="them"}`: "1",
		`baton_tokens_total{kind="input",model="m",provider="them"}`:                              "3",
		`baton_tokens_total{kind="output",model="m",provider="them"}`:                             "2",
	})
	start("main", "scripted", `"{\"do\":[{\"tokens\":500,\"size\":2000}]}"`)
	eventually(t, url, map[string]string{`baton_run_duration_seconds_count{status="completed"}`: "3", "baton_readers_cut_total": "0"})
	moved(
		t, url, "baton_run_first_event_seconds_sum", "baton_run_first_event_seconds_count", "baton_run_queue_seconds_sum",
		"baton_commit_duration_seconds_count", "baton_commit_duration_seconds_sum", "baton_commit_batch_events_count", "baton_commit_batch_events_sum",
	)
	stuck, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer stuck.Close()
	_ = stuck.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(stuck, "GET /api/v1/agent/runs/main/events HTTP/1.1\r\nHost: %s\r\n\r\n", s.Addr()); err != nil {
		t.Fatal(err)
	}
	eventually(t, url, map[string]string{"baton_readers_cut_total": "1"})
	moved(t, url, "baton_replay_events_count", "baton_replay_events_sum")

	db, err := storage.Open(t.Context(), storage.Config{URL: database})
	must(t, err)
	must(t, errors.Join(db.Members().Join(t.Context(), "another", ""), db.Close()))
	start("late", "echo", `"x"`)
	eventually(t, url, map[string]string{"baton_fenced_writes_total": "1"})
}

// deaf is a tool that ignores its context and returns when let is closed.
type deaf struct{ called, let chan struct{} }

func (deaf) Info() plugins.Info { return plugins.Info{Name: "deaf"} }

func (d deaf) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	close(d.called)
	<-d.let
	return agui.ToolOutput{}, nil
}

func TestMetrics_CountAbandonedTools(t *testing.T) {
	t.Parallel()
	d := deaf{make(chan struct{}), make(chan struct{})}
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", Plugins: append(builtin.Plugins(), d), Tuning: baton.Tuning{Timeouts: baton.Timeouts{Grace: 20 * time.Millisecond}},
	})
	send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"scripted","runId":"r","content":"{\"do\":[{\"tool\":\"deaf\"}]}"}`)
	<-d.called
	send(t, "POST", s.URL()+"/api/projects/default/agent-runs/r/cancel", "")
	eventually(t, s.URL()+"/metrics", map[string]string{
		`baton_abandoned_total{kind="tool"}`: "1", `baton_abandoned`: "1", `baton_run_duration_seconds_count{status="cancelled"}`: "1",
	})
	close(d.let)
	eventually(t, s.URL()+"/metrics", map[string]string{`baton_abandoned_total{kind="tool"}`: "1", `baton_abandoned`: "0"})
}

func TestMetrics_ShowThePluginsOfNow(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0"})
	for i, want := range []string{"1", ""} {
		if err := s.Replace(t.Context(), []plugins.Plugin{unreachable{}, boss()}[i]); err != nil {
			t.Fatal(err)
		}
		eventually(t, s.URL()+"/metrics", map[string]string{`baton_plugin_unwell{plugin="files"}`: want})
	}
}

func TestMetrics_OnlyOnAdminListener(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]baton.Config{
		"with accounts":            {Listen: "127.0.0.1:0", Accounts: baton.AuthenticatorFunc(byHeader)},
		"with an admin listener":   {Listen: "127.0.0.1:0", Tuning: baton.Tuning{AdminListen: ":0"}},
		"with both, for everybody": {Listen: "127.0.0.1:0", Tuning: baton.Tuning{AdminListen: "127.0.0.1:0"}, Accounts: baton.AuthenticatorFunc(byHeader)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, cfg)
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
				if res := send(t, "GET", s.URL()+path, "", "User", "p1/root/admin"); res.StatusCode != http.StatusNotFound {
					t.Errorf("%s on the public listener: %s", path, res.Status)
				}
			}
			if cfg.AdminListen == "" {
				return
			}
			if !strings.HasPrefix(s.AdminAddr(), "127.0.0.1:") {
				t.Fatalf("the admin listener is on %s", s.AdminAddr())
			}
			for path, want := range map[string]string{
				"/metrics": "baton_runs{", "/debug/pprof/goroutine?debug=1": "goroutine profile", "/healthz": "ok", "/readyz": "ready",
			} {
				res := send(t, "GET", "http://"+s.AdminAddr()+path, "")
				if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
					t.Errorf("%s: %s %.200s %v", path, res.Status, text, err)
				}
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.AdminAddr()+"/debug/pprof/", http.NoBody)
			must(t, err)
			req.Host = "evil.example"
			res, err := http.DefaultClient.Do(req)
			must(t, err)
			res.Body.Close()
			if res.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("with a foreign Host: %s", res.Status)
			}
		})
	}
}
