package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/transports"
)

// spends is an agent that uses 100 tokens, and asks a question if the message requests it.
type spends struct{}

func (spends) Info() plugins.Info { return plugins.Info{Name: "spends"} }

func (spends) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if err := run.Usage(ctx, agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 70, OutputTokens: 30}); err != nil {
		return agui.WorkerOutput{}, err
	}
	if run.Input.Query == "ask" {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "?"})
		return agui.WorkerOutput{}, err
	}
	return agui.WorkerOutput{Answer: "spent"}, nil
}

type idleTool struct{}

func (idleTool) Info() plugins.Info { return plugins.Info{Name: "idle"} }

func (idleTool) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: "fine"}, nil
}

// TestBudgets_LimitEveryDoor uses a project's budget up, and then starts and continues runs at every door, also on a server that
// takes the database over.
func TestBudgets_LimitEveryDoor(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		serve := func() (*baton.Server, string) {
			s := open(t, baton.Config{
				Listen: "127.0.0.1:0", Database: database, Tuning: baton.Tuning{APIKeys: true, Budgets: []baton.Budget{{Name: "daily", Scope: "project", Per: "day", Unit: "tokens", Limit: 150}}, Attachments: baton.Attachments{Directory: t.TempDir()}}, Plugins: []plugins.Plugin{spends{}, idleTool{}},
			})
			text, _, err := s.CreateAPIKey(t.Context(), "olga", []string{"p1", "p2"}, runtime.RoleOperator, time.Time{})
			must(t, err)
			return s, "Bearer " + text
		}
		s, key := serve()
		post := func(path, body string, header ...string) response {
			return send(t, "POST", s.URL()+path, body, append(header, "Authorization", key)...)
		}
		begin := func(path, body, status string, header ...string) string {
			t.Helper()
			var got struct{ RunID, Status string }
			res := post(path, body, header...)
			if text := answer(t, res); json.Unmarshal([]byte(text), &got) != nil || got.RunID == "" {
				t.Fatalf("%s: %s", res.Status, text)
			}
			for end := time.Now().Add(patience); got.Status != status; <-time.After(10 * time.Millisecond) {
				text := answer(t, send(t, "GET", s.URL()+"/api/projects/p1/agent-runs/"+got.RunID, "", "Authorization", key))
				if json.Unmarshal([]byte(text), &got) != nil || time.Now().After(end) {
					t.Fatalf("want %s: %s", status, text)
				}
			}
			return got.RunID
		}
		const first = `{"agent":"spends","threadId":"main","content":"x"}`
		done := begin("/api/v1/agent/runs", first, "COMPLETED", "Idempotency-Key", "k")
		asks := begin("/api/v1/agent/runs", `{"agent":"spends","threadId":"asks","content":"ask"}`, "WAITING")
		asked := answer(t, send(t, "GET", s.URL()+"/api/projects/p1/interrupts", "", "Authorization", key))
		var open struct{ Items []struct{ ID string } }
		if err := json.Unmarshal([]byte(asked), &open); err != nil || len(open.Items) != 1 {
			t.Fatal(asked)
		}
		resume := fmt.Sprintf(`{"resume":[{"interruptId":%q,"status":"resolved"}]}`, open.Items[0].ID)
		messages := `"messages":[{"id":"m","role":"user","content":"x"}],"tools":[],"context":[],"state":{},"forwardedProps":{}`
		call := func(tool, args string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, args)
		}
		stream := []string{"Accept", "text/event-stream"}
		doors := func() {
			t.Helper()
			for _, d := range []struct {
				path, body string
				header     []string
			}{
				{"/api/v1/agent/runs", `{"agent":"spends","content":"x"}`, nil},
				{"/api/v1/agent/runs", `{"agent":"spends","content":"x"}`, stream},
				{"/api/v1/agent/runs", `{"threadId":"asks",` + resume[1:], nil},
				{"/api/projects/p1/agent-runs", `{"agent":"spends","content":"x"}`, nil},
				{"/api/projects/p1/agent-runs/" + asks + "/resume", resume, nil},
				{"/api/projects/p1/agent-runs/" + done + "/messages", `{"content":"again"}`, nil},
				{"/api/v1/tools/idle/runs", `{"arguments":{}}`, nil},
				{"/api/v1/agui/spends", `{"threadId":"t","runId":"r",` + messages + `}`, stream},
				{"/api/v1/agui/spends", `{"threadId":"asks","runId":"r",` + resume[1:len(resume)-1] + `,` + messages + `}`, stream},
				{"/api/copilotkit/agent/spends/run", `{"threadId":"t","runId":"r",` + messages + `}`, stream},
				{"/api/copilotkit", `{"method":"agent/run","params":{"agentId":"spends"},"body":{"threadId":"t","runId":"r",` + messages + `}}`, stream},
			} {
				res := post(d.path, d.body, d.header...)
				if text := answer(t, res); res.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `"code":"budget_exceeded"`) ||
					!strings.Contains(text, "150 tokens") || !untilMidnight(res.Header.Get("Retry-After")) {
					t.Errorf("%s: %s, Retry-After %q: %.300s", d.path, res.Status, res.Header.Get("Retry-After"), text)
				}
			}
			for tool, args := range map[string]string{
				"start_agent_run": `{"agent":"spends","content":"x"}`, "append_agent_message": `{"run_id":"` + done + `","content":"x"}`,
				"resume_agent_run": `{"run_id":"` + asks + `",` + resume[1:],
			} {
				if got := answer(t, post("/mcp", call(tool, args), "Accept", "application/json, text/event-stream")); !strings.Contains(got, "150 tokens") {
					t.Errorf("%s: %.500s", tool, got)
				}
			}
			socket, _ := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {key}})
			for _, command := range []string{
				`{"op":"run","ref":"1","agent":"spends","content":"x"}`, `{"op":"append","ref":"2","runId":"` + done + `","content":"again"}`,
				`{"op":"resume","ref":"3","runId":"` + asks + `",` + resume[1:],
			} {
				_ = socket.WriteMessage(websocket.TextMessage, []byte(command))
				hear(t, socket, `"code":"budget_exceeded"`)
			}
			_ = socket.Close()
			one, _ := dial(t, s.URL()+"/api/v1/agui/spends/ws", http.Header{"Authorization": {key}})
			_ = one.WriteMessage(websocket.TextMessage, []byte(`{"threadId":"t","runId":"r",`+messages+`}`))
			if _, said, err := one.ReadMessage(); !websocket.IsCloseError(err, 4429) || !strings.Contains(err.Error(), "150 tokens") {
				t.Errorf("a socket for one run: %s, %v", said, err)
			}
			_ = one.Close()
			if got := answer(t, post("/api/v1/agent/runs", first, "Idempotency-Key", "k")); !strings.Contains(got, done) {
				t.Errorf("a repeat: %s", got)
			}
			if res := post("/api/v1/agent/runs?projectId=p2", `{"agent":"spends","content":"ask"}`); res.StatusCode != http.StatusAccepted {
				t.Errorf("another project: %s", res.Status)
			}
		}
		doors()
		must(t, s.Shutdown(t.Context()))
		s, key = serve()
		doors()
	})
}

// gated is an agent that asks before each of three calls of 100 tokens. made counts the calls.
type gated struct{ made atomic.Int64 }

func (*gated) Info() plugins.Info { return plugins.Info{Name: "gated"} }

func (g *gated) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	call := agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 70, OutputTokens: 30}
	for range 3 {
		if err := run.Do(ctx, "model", nil, func(ctx context.Context) error {
			if err := run.MayCallModel(ctx, call); err != nil {
				return err
			}
			g.made.Add(1)
			return run.ModelCall(ctx, plugins.ModelCall{Usage: call})
		}); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{Answer: "done"}, nil
}

// TestBudgets_AreReservedByAllServers starts runs of three servers one after another, and fifty at once: both use a budget up exactly.
func TestBudgets_AreReservedByAllServers(t *testing.T) {
	t.Parallel()
	database, g := postgrestest.New(t), new(gated)
	var servers []*baton.Server
	for range 3 {
		servers = append(servers, open(t, baton.Config{Listen: "127.0.0.1:0", Database: database, Plugins: []plugins.Plugin{g}, Tuning: baton.Tuning{
			APIKeys: true, Budgets: []baton.Budget{{Name: "daily", Scope: "project", Per: "day", Unit: "tokens", Limit: 1000}},
		}}))
	}
	quiet := func() {
		t.Helper()
		for end := time.Now().Add(patience); slices.ContainsFunc(servers, func(s *baton.Server) bool { st := s.Runtime().Stats(); return st.Running+st.Queued > 0 }); <-time.After(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("runs do not end")
			}
		}
	}
	start := func(i int, key string) {
		text := answer(t, send(t, "POST", servers[i%3].URL()+"/api/v1/agent/runs", `{"agent":"gated","content":"x"}`, "Authorization", key))
		if !strings.Contains(text, `"runId"`) && !strings.Contains(text, "budget_exceeded") {
			t.Errorf("server %d: %s", i%3, text)
		}
	}
	one, _ := newKey(t, servers[0], "uma", time.Time{}, "one")
	for i := range 6 {
		start(i, one)
		quiet()
	}
	if n := g.made.Load(); n != 10 {
		t.Errorf("one after another: %d calls were made, want 10", n)
	}
	g.made.Store(0)
	all, _ := newKey(t, servers[0], "uma", time.Time{}, "all")
	var sent sync.WaitGroup
	for i := range 50 {
		sent.Go(func() { start(i, all) })
	}
	sent.Wait()
	quiet()
	if n := g.made.Load(); n != 10 {
		t.Errorf("at once: %d calls were made, want 10", n)
	}
}

// TestBudgets_AreReserved starts fifty runs at the edge of a budget. Usage and budgets then agree with the calls, and a user
// sees the own ones.
func TestBudgets_AreReserved(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		g := new(gated)
		s := open(t, baton.Config{Listen: "127.0.0.1:0", Database: database, Plugins: []plugins.Plugin{g}, Tuning: baton.Tuning{
			APIKeys: true, Prices: baton.Prices{Currency: "EUR", Models: map[string]baton.Price{"m": {Input: 10, Output: 10}}},
			Budgets: []baton.Budget{
				{Name: "daily", Scope: "project", Per: "day", Unit: "tokens", Limit: 4000},
				{Name: "own", Scope: "user", Per: "month", Unit: "EUR", Limit: 500, Over: "ask"},
			},
		}})
		uma, _ := newKey(t, s, "uma", time.Time{})
		ben, _ := newKey(t, s, "ben", time.Time{})
		const month = "/api/projects/p1/usage"
		var sent sync.WaitGroup
		for i := range 50 {
			sent.Go(func() {
				res := send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"gated","content":"x"}`, "Authorization", []string{uma, ben}[i%2])
				if text := answer(t, res); res.StatusCode != http.StatusAccepted && (res.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "budget_exceeded")) {
					t.Errorf("%s: %s", res.Status, text)
				}
			})
		}
		sent.Wait()
		for end := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
			if st := s.Runtime().Stats(); st.Running+st.Queued == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("runs do not end")
			}
		}
		made := int(g.made.Load())
		if made != 40 {
			t.Errorf("%d calls were made, want 40", made)
		}
		used := func(key, path string) (calls []int, users []string) {
			var got struct {
				Items []struct {
					User          string
					Calls, Tokens int
					Cost          float64
				}
			}
			text := answer(t, send(t, "GET", s.URL()+path, "", "Authorization", key))
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(text)
			}
			for _, item := range got.Items {
				if item.Tokens != 100*item.Calls || math.Abs(item.Cost-0.001*float64(item.Calls)) > 1e-12 {
					t.Error(text)
				}
				calls, users = append(calls, item.Calls), append(users, item.User)
			}
			return calls, users
		}
		viewer, _, err := s.CreateAPIKey(t.Context(), "vera", []string{"p1"}, runtime.RoleViewer, time.Time{})
		must(t, err)
		viewer = "Bearer " + viewer
		mine, users := used(uma, month+"?by=user")
		if len(mine) != 1 || users[0] != "uma" {
			t.Errorf("uma sees %v of %v", mine, users)
		}
		if all, users := used(viewer, month+"?by=user"); len(all) != 2 || all[0]+all[1] != made || all[1] != mine[0] || users[0] != "ben" || users[1] != "uma" {
			t.Errorf("a viewer sees %v of %v, want %d", all, users, made)
		}
		for key, want := range map[string]string{viewer: "ben", uma: "uma"} {
			text := answer(t, send(t, "GET", s.URL()+"/api/projects/p1/budgets", "", "Authorization", key))
			if !strings.Contains(text, fmt.Sprintf(`{"name":"daily","scope":"project","of":"p1","per":"day","unit":"tokens","limit":4000,"used":%d,"resetsAt":"`, 100*made)) ||
				!strings.Contains(text, `"of":"`+want+`"`) || strings.Contains(text, `"of":"ben"`) != (key == viewer) {
				t.Errorf("budgets: %s", text)
			}
		}
	})
}

// untilMidnight reports whether a Retry-After ends with the day in UTC, within a minute.
func untilMidnight(after string) bool {
	n, err := strconv.Atoi(after)
	left := time.Until(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)).Seconds()
	return err == nil && math.Abs(float64(n)-left) < 60
}

// TestGuesses_AreLimited tries keys until the server rejects them without a check.
func TestGuesses_AreLimited(t *testing.T) {
	t.Parallel()
	s := bounded(t, baton.Adjust(withKeys(baton.Limits{RequestsPerUser: -1}), func(c *transports.Config) { c.Guesses = 5 }))
	alice, _ := newKey(t, s, "alice", time.Time{})
	late, _ := newKey(t, s, "bob", time.Time{})
	if got := status(t, "GET", s.URL()+"/api/v1/agents", "Authorization", alice); got != 200 {
		t.Fatal(got)
	}
	guess := func(i int) response {
		return send(t, "GET", s.URL()+"/api/v1/agents", "", "Authorization", fmt.Sprintf("Bearer baton_%024d_%032d", i, i))
	}
	for i := range 5 {
		if res := guess(i); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("guess %d: %s", i, res.Status)
		}
	}
	refusedFor(t, guess(5), "too_many_guesses", "credentials")
	refusedFor(t, send(t, "GET", s.URL()+"/api/v1/ws?ticket=x.y", ""), "too_many_guesses", "credentials")
	refusedFor(t, send(t, "GET", s.URL()+"/api/v1/agents", "", "Authorization", late), "too_many_guesses", "credentials")
	if got := status(t, "GET", s.URL()+"/api/v1/agents", "Authorization", alice); got != 200 {
		t.Errorf("a valid key: %d", got)
	}
	if got := status(t, "GET", s.URL()+"/api/v1/agents"); got != 401 {
		t.Errorf("no key: %d", got)
	}
	// Tickets are signed and cannot be guessed, so guesses do not block streams from the same address.
	ticket, _ := ticketFor(t, s, alice, "/api/v1/events")
	if got := status(t, "GET", s.URL()+"/api/v1/events?ticket="+ticket); got != 200 {
		t.Errorf("a new ticket: %d", got)
	}
	for end := time.Now().Add(patience); status(t, "GET", s.URL()+"/api/v1/agents", "Authorization", late) != 200; <-time.After(time.Second) {
		if time.Now().After(end) {
			t.Fatal("the server never checks a new key")
		}
	}
}
