package baton_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports/wire"
)

// payment is a tool that may not be called twice.
type payment struct{ calls *atomic.Int64 }

func (payment) Info() plugins.Info { return plugins.Info{Name: "pay"} }

func (p payment) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{ResultSummary: fmt.Sprint(p.calls.Add(1))}, nil
}

// books are the plugins of a workflow in which pay is called, note counts tokens and changes the state, and close asks, and fails the first time.
func books(paid, noted, closed *atomic.Int64) []plugins.Plugin {
	return []plugins.Plugin{
		payment{paid},
		plugins.AgentFunc("note", func(ctx context.Context, run *plugins.Run) error {
			noted.Add(1)
			if err := run.Usage(ctx, agui.TokenUsage{Provider: "p", Model: "m", InputTokens: 7}); err != nil {
				return err
			}
			return run.State(map[string]any{"noted": true})
		}),
		plugins.AgentFunc("close", func(ctx context.Context, run *plugins.Run) error {
			if _, err := run.Ask(ctx, agui.Interrupt{Message: "Close?"}); err != nil {
				return err
			}
			if closed.Add(1) == 1 {
				return &plugins.Error{Code: "locked", Message: "The books are locked"}
			}
			_, err := fmt.Fprint(run.Text(), "closed with "+run.Input.Query)
			return err
		}),
		plugins.Workflow{Name: "books", Nodes: []plugins.Node{
			{ID: "paid", Tool: "pay", Input: `{}`},
			{ID: "noted", Agent: "note", Needs: []string{"paid"}},
			{ID: "shut", Agent: "close", Needs: []string{"noted"}, When: "state.noted == true && state.year == 2026", Input: `nodes.paid.answer + " " + query`},
		}},
	}
}

// The rerun from a node begins with the state of its origin then: completed nodes are neither executed nor counted again, and later questions are asked
// again. It needs nothing of its origin once it has begun.
func TestRerun_FromANode(t *testing.T) {
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + sqlitetest.New(t) },
		"PostgreSQL": func() string { return postgrestest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			var paid, noted, closed atomic.Int64
			s := site{t, open(t, baton.Config{Listen: "127.0.0.1:0", Database: database(), Accounts: baton.AuthenticatorFunc(byHeader), Plugins: books(&paid, &noted, &closed)}).URL()}
			read := func(id string) (run wire.Run) { s.get(runsPath+id, &run); return run }
			reach := func(id string, status string) (run wire.Run) {
				s.until(id+" is "+status, func() bool { run = read(id); return string(run.Status) == status })
				return run
			}
			answer := func(run wire.Run) {
				s.must(asking, "POST", runsPath+run.ID+"/resume", fmt.Sprintf(`{"resume":[{"interruptId":%q,"status":"resolved"}]}`, run.Interrupts[0].ID))
			}
			rerun := func(of, body string) string {
				return s.must(asking, "POST", runsPath+of+"/rerun", body)["runId"].(string)
			}
			s.must(asking, "POST", "/api/v1/agent/runs", `{"workflowId":"books","threadId":"t","runId":"first","content":"for 2026","state":{"year":2026},"metadata":{"tags":["a"]},"contextItemIds":["c"]}`)
			answer(reach("first", "WAITING"))
			reach("first", "FAILED")

			again := rerun("first", `{"fromNode":"shut"}`)
			waiting := reach(again, "WAITING")
			if waiting.ThreadID == "t" || string(waiting.Metadata) != `{"rerunFrom":"shut","rerunOf":"first","tags":["a"]}` || len(waiting.Usage) > 0 {
				t.Errorf("the rerun is %+v with %s", waiting, waiting.Metadata)
			}
			var found struct{ Items []wire.Run }
			if s.get(runsPath[:len(runsPath)-1]+"?metadata.rerunOf=first", &found); len(found.Items) != 1 || found.Items[0].ID != again {
				t.Errorf("the origin's reruns are %v", found.Items)
			}
			s.must("p1/alice/admin", "DELETE", runsPath+"first", "")
			answer(waiting)
			if run := reach(again, "COMPLETED"); *run.OutputSummary != "closed with 1 for 2026" || len(run.Usage) > 0 {
				t.Errorf("the rerun says %q and has used %v", *run.OutputSummary, run.Usage)
			}
			if paid.Load() != 1 || noted.Load() != 1 {
				t.Errorf("completed nodes were executed again: %d, %d times", paid.Load(), noted.Load())
			}
			var steps struct{ Items []wire.Step }
			s.get(runsPath+again+"/steps", &steps)
			var names []string
			for _, st := range steps.Items {
				names = append(names, fmt.Sprintf("%d %s %s", st.StepNumber, st.NodeID, st.Status))
			}
			if got := strings.Join(names, ", "); got != "1 paid COMPLETED, 2 noted COMPLETED, 3 shut COMPLETED" {
				t.Errorf("the rerun's steps are %s", got)
			}

			whole := rerun(again, "") // of a rerun: all of it
			answer(reach(whole, "WAITING"))
			if run := reach(whole, "COMPLETED"); *run.OutputSummary != "closed with 2 for 2026" || run.Usage[0].InputTokens != 7 || string(run.Metadata) != fmt.Sprintf(`{"rerunOf":%q,"tags":["a"]}`, again) {
				t.Errorf("the whole rerun is %+v with %s", run, run.Metadata)
			}
			if got := s.request(asking, "POST", runsPath+whole+"/rerun", `{"fromNode":"none"}`); got.status != http.StatusBadRequest || !strings.Contains(got.body, "/fromNode") {
				t.Errorf("from a node that is not there: %d %s", got.status, got.body)
			}
		})
	}
}
