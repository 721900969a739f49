package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rates"
)

// withKeys returns the configuration of a server with API keys and limits.
func withKeys(l baton.Limits) baton.Config {
	return baton.Config{
		Listen: "127.0.0.1:0", Tuning: baton.Tuning{APIKeys: true, Limits: l, Timeouts: baton.Timeouts{OnDisconnectGrace: 10 * time.Millisecond}},
	}
}

// bounded opens a server and shuts it down when the test ends.
func bounded(t *testing.T, cfg baton.Config) *baton.Server {
	t.Helper()
	s := open(t, baton.Adjust(cfg, func(c *transports.Config) { c.ReadTimeout, c.Slack = time.Hour, time.Hour })) // for clients that pause within a body
	t.Cleanup(func() {                                                                                            // with time for running work
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// refusedFor reads a refusal, and checks its code, detail and Retry-After.
func refusedFor(t *testing.T, res response, code, detail string) {
	t.Helper()
	text := answer(t, res)
	var got struct{ Code, Detail string }
	wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
	if json.Unmarshal([]byte(text), &got) != nil || res.StatusCode != http.StatusTooManyRequests || err != nil || wait < 1 ||
		got.Code != code || !strings.Contains(got.Detail, detail) {
		t.Fatalf("%s, Retry-After %q: %s; want %s, %s", res.Status, res.Header.Get("Retry-After"), text, code, detail)
	}
}

// slowly returns the configuration of a server with the lowest rate limit.
func slowly() baton.Config {
	return baton.Adjust(withKeys(baton.Limits{RequestsPerUser: 1}), func(c *rates.Config) { c.User.Burst = 40 })
}

// spend makes requests until one is refused, and returns that answer.
func spend(t *testing.T, s *baton.Server, key, path string) response {
	t.Helper()
	for range 10_000 {
		res := send(t, "GET", s.URL()+path, "", "Authorization", key)
		if res.StatusCode == http.StatusTooManyRequests {
			return res
		}
		_ = res.Body.Close()
	}
	t.Fatal("nothing was refused")
	return response{}
}

func TestRateLimit_PerUser(t *testing.T) {
	t.Parallel()
	s := bounded(t, slowly())
	alice, _ := newKey(t, s, "alice", time.Time{}, "p1", "p2")
	bob, _ := newKey(t, s, "bob", time.Time{}, "p1")
	for _, path := range []string{"/api/v1/agents", "/api/v1/threads?projectId=foreign", "/api/v1/nothing"} {
		refusedFor(t, spend(t, s, alice, path), "rate_limited", "1 requests a second")
	}
	if got := status(t, "GET", s.URL()+"/api/v1/agents", "Authorization", bob); got != 200 {
		t.Errorf("another user: %d", got)
	}
	if got := status(t, "GET", s.URL()+"/api/v1/agents?projectId=p2", "Authorization", alice); got != 200 {
		t.Errorf("the same user in another project: %d", got)
	}
	if got := status(t, "GET", s.URL()+"/readyz"); got != 200 {
		t.Errorf("a public route: %d", got)
	}
	if got := status(t, "GET", s.URL()+"/api/v1/agents"); got != 401 {
		t.Errorf("without a credential: %d", got)
	}
}

// What a request sends, gets or has stored counts as requests: 5 MiB are 40 or more, after which the next one waits, however few bytes ask for it.
func TestRateLimit_CountsBytes(t *testing.T) { // alone: its messages are large, and a commit must not take as long as one that is given up
	s := bounded(t, baton.Adjust(slowly(), func(c *rates.Config) { c.User.Burst = 1 }))
	large := fmt.Sprintf(`{"agent":"echo","runId":"large","threadId":"large","content":%q}`, strings.Repeat("x", 5<<20))
	const runs = "/api/projects/p/agent-runs"
	for name, ask := range map[string]func(key string) response{
		"body": func(key string) response { return send(t, "POST", s.URL()+runs, large, "Authorization", key) },
		"answer": func(key string) response {
			return send(t, "GET", s.URL()+"/api/v1/threads/large/messages", "", "Authorization", key)
		},
		"export": func(key string) response {
			return send(t, "GET", s.URL()+"/api/v1/agent/history?threadId=large", "", "Authorization", key)
		},
		"stream": func(key string) response {
			return send(t, "GET", s.URL()+"/api/v1/agent/runs/large/events?follow=false", "", "Authorization", key, "Accept", "text/event-stream")
		},
		"upload": func(key string) response {
			form := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n" + strings.Repeat("x", 5<<20) + "\r\n--b--\r\n"
			return send(t, "POST", s.URL()+"/api/v1/agent/attachments", form, "Content-Type", "multipart/form-data; boundary=b", "Authorization", key)
		},
		"copy": func(key string) response {
			return send(t, "POST", s.URL()+runs+"/large/rerun", "{}", "Authorization", key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			key, _ := newKey(t, s, name, time.Time{}, "p")
			if name != "body" { // its requests are another's of the same name
				who := runtime.MustCaller("p", name, runtime.RoleUser)
				if _, err := s.Runtime().StartRun(t.Context(), who, runtime.StartRequest{
					Agent: "echo", ThreadID: "large", RunID: "large", Messages: []agui.Message{{Role: agui.RoleUser, Content: strings.Repeat("x", 5<<20)}},
				}); err != nil {
					t.Fatal(err)
				}
			}
			if res := ask(key); res.StatusCode >= 300 {
				t.Fatalf("%s: %.300s", res.Status, answer(t, res))
			} else if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			refusedFor(t, send(t, "GET", s.URL()+"/api/v1/agents", "", "Authorization", key), "rate_limited", "where large ones count as several")
		})
	}
}

// A cancel of any transport passes, however much its caller has sent before. What comes beside it is refused.
func TestRateLimit_PassesCancels(t *testing.T) { // alone: its messages are large, and a commit must not take as long as one that is given up
	s := bounded(t, baton.Adjust(slowly(), func(c *rates.Config) { c.User.Burst = 2 })) // a socket, and what is too much
	spend := func(t *testing.T, key string) {
		t.Helper()
		body := fmt.Sprintf(`{"agent":"echo","content":%q}`, strings.Repeat("x", 7<<20))
		if res := send(t, "POST", s.URL()+"/api/v1/agent/runs", body, "Authorization", key); res.StatusCode != http.StatusAccepted {
			t.Fatalf("%s: %.300s", res.Status, answer(t, res))
		}
	}
	tool := func(name string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q,"arguments":{"run_id":"main"}}}`, name, name)
	}
	post := func(path, body string, refuses int) func(t *testing.T, key string) {
		return func(t *testing.T, key string) {
			t.Helper()
			spend(t, key)
			res := send(t, "POST", s.URL()+path, body, "Authorization", key, "Accept", "application/json, text/event-stream")
			text := answer(t, res)
			if res.StatusCode != http.StatusOK || strings.Count(text, "requests a second") != refuses {
				t.Errorf("%s: %s", res.Status, text)
			}
		}
	}
	for name, cancel := range map[string]func(t *testing.T, key string){
		"REST":            post("/api/projects/p1/agent-runs/main/cancel", "{}", 0),
		"CopilotKit":      post("/api/copilotkit/agent/scripted/stop/main", "", 0),
		"CopilotKit-root": post("/api/copilotkit", `{"method":"agent/stop","params":{"agentId":"scripted","threadId":"main"}}`, 0),
		"MCP":             post("/mcp", tool("cancel_agent_run"), 0),
		"MCP-batch":       post("/mcp", "["+tool("get_agent_run_events")+","+tool("cancel_agent_run")+"]", 1),
		"WebSocket": func(t *testing.T, key string) {
			socket, _ := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {key}})
			spend(t, key)
			_ = socket.WriteMessage(websocket.TextMessage, []byte(`{"op":"unsubscribe","threadId":"none"}`))
			hear(t, socket, `"rate_limited"`)
			_ = socket.WriteMessage(websocket.TextMessage, []byte(`{"op":"cancel","ref":"c","runId":"main"}`))
			hear(t, socket, `"ref":"c"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			key, _ := newKey(t, s, name, time.Time{}, "p1")
			who := runtime.MustCaller("p1", name, runtime.RoleUser)
			if _, err := s.Runtime().StartRun(t.Context(), who, runtime.StartRequest{
				Agent: "scripted", ThreadID: "main", RunID: "main", Messages: []agui.Message{{Role: agui.RoleUser, Content: slowScript(time.Minute)}},
			}); err != nil {
				t.Fatal(err)
			}
			cancel(t, key)
			if run, err := s.Runtime().Runs.Get(t.Context(), who, "main"); err != nil || run.Status != runtime.Cancelled {
				t.Errorf("the run is %s: %v", run.Status, err)
			}
			refusedFor(t, send(t, "GET", s.URL()+"/api/v1/agents", "", "Authorization", key), "rate_limited", "")
			for _, body := range []string{`{"method":"info"}`, `{"method":"agent/stop"}` + strings.Repeat(" ", 8<<10)} { // no cancel, and too large for one
				refusedFor(t, send(t, "POST", s.URL()+"/api/copilotkit", body, "Authorization", key), "rate_limited", "")
			}
		})
	}
}

// The server refuses a request after its head, before its body.
func TestRateLimit_RefusesBeforeBody(t *testing.T) {
	t.Parallel()
	s := bounded(t, slowly())
	alice, _ := newKey(t, s, "alice", time.Time{})
	_ = spend(t, s, alice, "/api/v1/agents")
	raw := "POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 1000000\r\nAuthorization: " + alice + "\r\n\r\n"
	if got := talk(t, s, raw); !strings.HasPrefix(got, "HTTP/1.1 429") || !strings.Contains(got, `"rate_limited"`) {
		t.Errorf("got %.300q", got)
	}
}

// Each call in a batch counts as a request. Calls over the limit are refused one by one.
func TestRateLimit_CountsCallsOfBatch(t *testing.T) {
	t.Parallel()
	s := bounded(t, slowly())
	alice, _ := newKey(t, s, "alice", time.Time{})
	batch := func() (done, refused int) {
		t.Helper()
		var calls []string
		for id := range 32 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"list_agents","arguments":{}}}`, id+1))
		}
		res := send(t, "POST", s.URL()+"/mcp", "["+strings.Join(calls, ",")+"]", "Authorization", alice, "Accept", "application/json, text/event-stream")
		text := answer(t, res)
		var answers []struct {
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != 32 {
			t.Fatalf("%s: %d answers, %v: %.300s", res.Status, len(answers), err, text)
		}
		for _, a := range answers {
			switch {
			case a.Error == nil:
				done++
			case strings.Contains(a.Error.Message, "You may send 1 requests a second"):
				refused++
			default:
				t.Errorf("got %+v", a.Error)
			}
		}
		return done, refused
	}
	begun := time.Now()
	if done, refused := batch(); done != 32 || refused != 0 {
		t.Errorf("a batch within the limit: %d answered, %d refused", done, refused)
	}
	done, refused := batch()
	if most := 9 + int(time.Since(begun)/time.Second); done < 1 || done > most || done+refused != 32 {
		t.Errorf("a batch over the limit: %d answered, %d refused; want at most %d answered", done, refused, most)
	}
	refusedFor(t, spend(t, s, alice, "/api/v1/agents"), "rate_limited", "1 requests a second")
}

func TestRateLimit_PerProject(t *testing.T) {
	t.Parallel()
	s := bounded(t, withKeys(baton.Limits{RequestsPerUser: -1, RequestsPerProject: 1}))
	alice, _ := newKey(t, s, "alice", time.Time{}, "p1")
	refusedFor(t, spend(t, s, alice, "/api/v1/agents"), "rate_limited", "Your project")
	other, _ := newKey(t, s, "bob", time.Time{}, "p2")
	if got := status(t, "GET", s.URL()+"/api/v1/agents", "Authorization", other); got != 200 {
		t.Errorf("another project: %d", got)
	}
}

// A repeat with an Idempotency-Key counts like any request, and gets its answer once the limit allows it.
func TestRateLimit_CountsRepeats(t *testing.T) {
	t.Parallel()
	s := bounded(t, slowly())
	alice, _ := newKey(t, s, "alice", time.Time{})
	post := func() response {
		body := `{"agent":"echo","threadId":"main","content":"x"}`
		return send(t, "POST", s.URL()+"/api/v1/agent/runs", body, "Authorization", alice, "Idempotency-Key", "one")
	}
	first := answer(t, post())
	_ = spend(t, s, alice, "/api/v1/agents")
	again := post()
	for ; again.StatusCode == http.StatusTooManyRequests; again = post() {
		refusedFor(t, again, "rate_limited", "You may send")
		<-time.After(100 * time.Millisecond)
	}
	if got := answer(t, again); again.StatusCode != http.StatusAccepted || got != first {
		t.Errorf("a repeat gets %s %s", again.Status, got)
	}
}

// opposite returns the key of a viewer of the project.
func opposite(t *testing.T, s *baton.Server) string {
	t.Helper()
	text, _, err := s.CreateAPIKey(t.Context(), "viewer", []string{"p1"}, baton.RoleViewer, time.Time{})
	must(t, err)
	return "Bearer " + text
}

func TestStreamLimit(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]baton.Limits{"You": {StreamsPerUser: 3}, "Your project": {StreamsPerProject: 3}} {
		t.Run(name, func(t *testing.T) {
			s := bounded(t, withKeys(l))
			alice, _ := newKey(t, s, "alice", time.Time{})
			post := send(t, "POST", s.URL()+"/api/v1/agent/runs", slow("main", 4*time.Second), "Authorization", alice, "Accept", "text/event-stream")
			if _, err := post.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			events := send(t, "GET", s.URL()+"/api/v1/agent/runs/main/events?follow=true", "", "Authorization", alice)
			if _, err := events.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			socket, got := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {alice}})
			if got != http.StatusSwitchingProtocols {
				t.Fatal(got)
			}
			_ = socket.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","threadId":"main"}`))
			hear(t, socket, `"op":"ack"`)
			sees := opposite(t, s)
			if name == "You" {
				if got := status(t, "GET", s.URL()+"/api/v1/agent/runs/other/events", "Authorization", sees); got != 404 {
					t.Errorf("another user: %d", got)
				}
			}
			for _, c := range [][3]string{
				{"GET", "/api/v1/agent/runs/main/events?follow=true", ""},
				{"POST", "/api/v1/agent/runs", `{"agent":"echo","threadId":"never","content":"x"}`},
				{"POST", "/api/v1/agui/echo", `{"threadId":"never","messages":[{"id":"1","role":"user","content":"x"}]}`},
				{"POST", "/api/v1/agui/scripted/connect", `{"threadId":"main","messages":[]}`},
				{"GET", "/api/v1/events", ""},
			} {
				res := send(t, c[0], s.URL()+c[1], c[2], "Authorization", alice, "Accept", "text/event-stream")
				refusedFor(t, res, "too_many_streams", name+" may have 3")
			}
			if _, got := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {alice}}); got != http.StatusTooManyRequests {
				t.Errorf("a socket: %d", got)
			}
			if got := status(t, "GET", s.URL()+"/api/v1/agent/runs/never/events", "Authorization", alice); got != 404 {
				t.Errorf("a run has started for a refused stream: %d", got)
			}
			if got := status(t, "POST", s.URL()+"/api/v1/stream-tickets", "Authorization", alice); got == 429 {
				t.Error("a request without a stream was refused")
			}
			_ = events.Body.Close()
			for opened := false; !opened; <-time.After(10 * time.Millisecond) { // until the server has seen it
				res := send(t, "GET", s.URL()+"/api/v1/agent/runs/main/events?follow=true", "", "Authorization", alice)
				opened = res.StatusCode == http.StatusOK
				_ = res.Body.Close()
			}
		})
	}
}

func TestLimits_ShowAttachments(t *testing.T) {
	t.Parallel()
	s := bounded(t, withKeys(baton.Limits{}))
	alice, _ := newKey(t, s, "alice", time.Time{})
	bob, _ := newKey(t, s, "bob", time.Time{})
	const form = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\ntwelve bytes\r\n--b--\r\n"
	for range 2 {
		if res := send(t, "POST", s.URL()+"/api/v1/agent/attachments", form, "Content-Type", "multipart/form-data; boundary=b", "Authorization", alice); res.StatusCode != http.StatusCreated {
			t.Fatal(answer(t, res))
		}
	}
	const has = `"used":{"files":2,"bytes":24}`
	admin, _, err := s.CreateAPIKey(t.Context(), "adam", []string{"p1"}, runtime.RoleAdmin, time.Time{})
	must(t, err)
	if got := answer(t, send(t, "GET", s.URL()+"/api/v1/limits?user=alice", "", "Authorization", "Bearer "+admin)); !strings.Contains(got, has) {
		t.Errorf("an admin sees alice's %s", got)
	}
	for key, want := range map[string]string{alice: has, bob: `"used":{"files":0,"bytes":0}`} {
		if got := answer(t, send(t, "GET", s.URL()+"/api/v1/limits", "", "Authorization", key)); !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestInFlightLimit sends requests whose bodies stop midway.
func TestInFlightLimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*rates.Config){
		"You": func(c *rates.Config) { c.User.Bytes = 300 << 10 }, "Your project": func(c *rates.Config) { c.Project.Bytes = 300 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			s := bounded(t, baton.Adjust(withKeys(baton.Limits{}), limit))
			alice, _ := newKey(t, s, "alice", time.Time{})
			bob, _ := newKey(t, s, "bob", time.Time{})
			elsewhere, _ := newKey(t, s, "alice", time.Time{}, "p2")
			origin := send(t, "POST", s.URL()+"/api/v1/agent/runs", fmt.Sprintf(`{"agent":"echo","runId":"large","content":%q}`, strings.Repeat("x", 60<<10)), "Authorization", alice)
			if origin.StatusCode != http.StatusAccepted {
				t.Fatal(origin.Status)
			}
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
			must(t, err)
			defer conn.Close()
			_, _ = fmt.Fprintf(conn, "POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n%s",
				alice, strings.Repeat(" ", 260<<10))
			body := `{"agent":"echo","content":"x"}` + strings.Repeat(" ", 100<<10)
			post := func(key string) response {
				return send(t, "POST", s.URL()+"/api/v1/agent/runs", body, "Authorization", key)
			}
			share := map[string]string{"You": "user", "Your project": "project"}[name]
			type inFlight struct{ Limit, Used int64 }
			held := func() inFlight {
				var limits map[string]struct{ InFlight inFlight }
				_ = json.Unmarshal([]byte(answer(t, send(t, "GET", s.URL()+"/api/v1/limits", "", "Authorization", alice))), &limits)
				return limits[share].InFlight
			}
			deadline := time.Now().Add(patience)
			for held().Used < 480<<10 { // until its buffer has grown for the last time; otherwise this request could be the refused one
				if time.Now().After(deadline) {
					t.Fatalf("limits show %+v", held())
				}
				<-time.After(10 * time.Millisecond)
			}
			refusedFor(t, post(alice), "too_many_bytes", name+" may have 307200 bytes")
			refusedFor(t, send(t, "POST", s.URL()+"/api/projects/p1/agent-runs/large/rerun", "{}", "Authorization", alice),
				"too_many_bytes", name+" may have 307200 bytes")
			if want := map[string]int{"You": 202, "Your project": 429}[name]; post(bob).StatusCode != want {
				t.Errorf("another user of the project: want %d", want)
			}
			if res := post(elsewhere); res.StatusCode != http.StatusAccepted {
				t.Errorf("the same user in another project: %s", res.Status)
			}
			if got := held(); got.Limit != 300<<10 || got.Used < 200<<10 {
				t.Errorf("limits show %+v", got)
			}
			_ = conn.Close()
			for passed := false; !passed; <-time.After(10 * time.Millisecond) {
				if passed = post(alice).StatusCode == http.StatusAccepted; !passed && time.Now().After(deadline) {
					t.Fatal("the reservation of an abandoned request is not released")
				}
			}
		})
	}
}
