package baton_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// held is an agent that works until it is let go, and then asks if its message is "ask".
type held struct {
	info plugins.Info
	gate chan struct{}
}

func (g held) Info() plugins.Info { return g.info }

func (g held) Run(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	select {
	case <-g.gate:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	if run.Input.Query == "ask" {
		_, err = run.Ask(ctx, agui.Interrupt{Message: "Deploy?"})
	}
	return out, err
}

// A run that does not begin shows the limit or the run that it waits for, to those who may see it.
func TestWaiting_OfQueuedRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		gate := make(chan struct{})
		server := open(t, baton.Config{
			Listen: "127.0.0.1:0", Database: database, Accounts: baton.AuthenticatorFunc(byHeader),
			Plugins: []plugins.Plugin{held{plugins.Info{Name: "gated"}, gate}, held{plugins.Info{Name: "single", Concurrency: 1}, gate}},
			Tuning:  baton.Tuning{Limits: baton.Limits{Runs: 3, RunsPerProject: 2, RunsPerUser: 1, RequestsPerUser: -1, RequestsPerProject: -1}},
		})
		s := site{t, server.URL()}
		start := func(user, project, thread, run, agent, content string) {
			s.must(project+"/"+user+"/user", "POST", "/api/v1/agent/runs", fmt.Sprintf(`{"agent":%q,"threadId":%q,"runId":%q,"content":%q}`, agent, thread, run, content))
		}
		get := func(who, project, run string) (got wire.Run) {
			answer := s.request(who, "GET", "/api/projects/"+project+"/agent-runs/"+run, "")
			if err := json.Unmarshal([]byte(answer.body), &got); answer.status != 200 || err != nil {
				t.Fatalf("GET of %s: %d %s", run, answer.status, answer.body)
			}
			return got
		}
		waits := func(user, project, run, want string) {
			t.Helper()
			var w *wire.Waiting
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
				r := get(project+"/"+user+"/user", project, run)
				if w = r.Waiting; w != nil && fmt.Sprint(w.Reason, w.Behind, w.Position) == want && !w.Since.Before(r.CreatedAt) && w.Until == nil {
					return
				}
			}
			t.Errorf("%s waits for %+v, want %s", run, w, want)
		}
		executes := func(user, project, run string) {
			t.Helper()
			for deadline := time.Now().Add(patience); get(project+"/"+user+"/user", project, run).Status != "RUNNING"; <-time.After(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s does not execute", run)
				}
			}
			if w := get(project+"/"+user+"/user", project, run).Waiting; w != nil {
				t.Errorf("%s executes, and waits for %+v", run, w)
			}
		}
		start("alice", "p1", "asks", "asks", "gated", "ask")
		start("alice", "p1", "asks", "next", "gated", "x")
		waits("alice", "p1", "next", "thread_busyasks1")
		gate <- struct{}{}
		waits("alice", "p1", "next", "thread_waitingasks1")

		start("alice", "p1", "main", "a1", "gated", "x")
		start("alice", "p1", "main", "a2", "gated", "x")
		start("alice", "p1", "main", "a3", "gated", "x")
		start("alice", "p1", "second", "a4", "gated", "x")
		start("alice", "p1", "third", "a5", "gated", "x")
		start("alice", "p1", "third", "a6", "gated", "x")
		executes("alice", "p1", "a1")
		waits("alice", "p1", "a2", "thread_busya11")
		waits("alice", "p1", "a3", "thread_busya12")
		waits("alice", "p1", "a4", "user_limit1")
		waits("alice", "p1", "a5", "user_limit2")
		waits("alice", "p1", "a6", "thread_busya51")
		start("bob", "p1", "main", "b1", "single", "x")
		executes("bob", "p1", "b1")
		start("carol", "p1", "main", "c1", "gated", "x")
		waits("carol", "p1", "c1", "project_limit1")
		start("dave", "p2", "main", "d1", "single", "x")
		waits("dave", "p2", "d1", "agent_limit1")
		start("dave", "p2", "other", "d2", "gated", "x")
		executes("dave", "p2", "d2")
		start("erin", "p2", "main", "e1", "gated", "x")
		waits("erin", "p2", "e1", "server_limit1")

		if got := s.request("p1/bob/user", "GET", runsPath+"a2", ""); got.status != 404 {
			t.Errorf("a neighbour gets %d %s", got.status, got.body)
		}
		listed := make(map[string]string)
		var page wire.Page[wire.Run]
		must(t, json.Unmarshal([]byte(s.request("p1/oscar/operator", "GET", "/api/projects/p1/agent-runs?status=QUEUED", "").body), &page))
		for _, r := range page.Items {
			if r.Waiting != nil {
				listed[r.ID] = r.Waiting.Behind
			}
		}
		want := map[string]string{"next": "asks", "a2": "a1", "a3": "a1", "a4": "", "a5": "", "a6": "a5", "c1": ""}
		if fmt.Sprint(listed) != fmt.Sprint(want) {
			t.Errorf("an operator's list has %v, want %v", listed, want)
		}
		close(gate)
		for _, run := range []string{"a3", "a6", "b1", "c1"} {
			for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
				r := get("p1/oscar/operator", "p1", run)
				if r.Status == "COMPLETED" && r.Waiting == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s is %s, %+v", run, r.Status, r.Waiting)
				}
			}
		}
	})
}
