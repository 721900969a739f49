package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
)

// labelled is an agent that servers with a label execute.
type labelled struct {
	agent
	label string
}

func (l labelled) Info() plugins.Info { return plugins.Info{Name: l.name, RunOn: l.label} }

// answers returns an agent that answers with text, and sends each run's id to ran.
func answers(name, text string, ran chan<- string) agent {
	return agent{name, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if ran != nil {
			ran <- run.Input.RunID
		}
		return agui.WorkerOutput{}, say(run, text)
	}}
}

// known returns the servers that a server knows.
func (b *bench) known() []runtime.Server {
	b.t.Helper()
	list, err := b.Servers(local)
	must(b.t, err)
	return list
}

// A server offers the plugins of all living servers. A run that it cannot execute is executed by one that can.
func TestServers_OfferWhatOthersHave(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	ran := make(chan string, 10)
	sum := tool{plugins.Info{Name: "sum", Description: "Adds.", Parameters: json.RawMessage(`{"type":"object","required":["a"]}`)}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{}, nil
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "one", Agent: "far"}, {ID: "two", Tool: "sum", Input: `{"a": 1}`, Needs: []string{"one"}}}}
	both := func(rule string) plugins.Agent {
		g := verdict(plugins.Verdict{Verdict: plugins.Allow})
		g.Rule = rule
		return guarded{agent{name: "both"}, plugins.Guards{Input: []plugins.Guard{g}}}
	}
	a, _ := member(t, url, runtime.Config{Identity: runtime.Identity{Name: "a", Settings: map[string]string{"x": "1"}}}, answers("near", "a", nil), both("true"))
	b, _ := member(t, url, runtime.Config{Identity: runtime.Identity{Name: "b", Settings: map[string]string{"x": "2"}}}, answers("far", "b", ran), sum, flow, both("false"))
	a.until("a offers what b has", func() bool {
		_, ok := a.Offered(local).Workflow("flow")
		return ok
	})
	offered := a.Offered(local)
	if got, ok := offered.Tool("sum"); !ok || got.Info().Description != "Adds." || len(offered.Agents()) != 3 || len(offered.Tools()) != 1 {
		t.Errorf("a offers %v, %v", offered.Agents(), offered.Tools())
	}
	runs := []runtime.Started{a.start("agent", "far", "go"), a.startWorkflow("workflow", "flow", "go")}
	s, err := a.StartRun(t.Context(), local, runtime.StartRequest{Tool: "sum", ThreadID: "tool", Messages: []agui.Message{{Role: agui.RoleUser, Content: `{"a": 1}`}}})
	must(t, err)
	for _, s := range append(runs, s) {
		if run := a.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
			t.Errorf("%s: %+v", run.WorkflowID, run.Error)
		}
	}
	if len(ran) != 2 {
		t.Errorf("b has executed %d runs of its agent", len(ran))
	}
	var names []string
	for _, s := range a.known() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("a knows the servers %q", names)
	}
	if got := runtime.Differences(a.known()); len(got) != 2 || !strings.Contains(got[0], "settings x differ between") || !strings.Contains(got[1], "guards of the agent both differ") {
		t.Errorf("they differ: %q", got)
	}
	b.down()
	a.until("a has seen that b has ended", func() bool { return len(a.known()) == 1 })
	late := a.run(a.start("late", "far", "go"))
	a.until("a run of an agent whose server has just ended waits for it", func() bool {
		w := a.WaitOf(t.Context(), &late)
		return late.Status == runtime.Queued && w != nil && w.Reason == "no_server"
	})
	a.exec("UPDATE servers SET seen_at = seen_at - interval '1 minute' WHERE instance IN (SELECT id FROM instances WHERE fenced)")
	a.until("a no longer offers what b had", func() bool {
		_, ok := a.Offered(local).Agent("far")
		return !ok
	})
	_, err = a.StartRun(t.Context(), local, runtime.StartRequest{Agent: "far"})
	if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "unknown_agent" {
		t.Errorf("an agent that no server has is refused with %v", err)
	}
}

// A run that no living server may execute says so, and fails at a time. A run of an agent that has come back in time does not.
func TestServers_FailRunsWhoseAgentIsGone(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	cfg := runtime.Config{Limits: runtime.Limits{AgentGone: 12 * time.Second}}
	hangs, _ := halves("far")
	lost, goesOn := halves("back")
	a, _ := member(t, url, cfg, hello)
	b, _ := member(t, url, cfg, hangs, lost)
	running, queued := b.start("main", "far", "go"), b.start("main", "far", "more")
	saved := b.start("saved", "back", "go")
	<-hangs.began
	<-lost.began
	b.down()
	for _, s := range []runtime.Started{saved, running, queued} {
		a.until("the run waits for a server", func() bool {
			run := a.run(s)
			w := a.WaitOf(t.Context(), &run)
			return w != nil && w.Reason == "no_server" && w.Until.Sub(w.Since) == cfg.AgentGone
		})
		if s.RunID == saved.RunID {
			member(t, url, cfg, goesOn)
			a.wait(saved.RunID, runtime.Completed)
		}
	}
	for _, s := range []runtime.Started{running, queued} {
		if run := a.wait(s.RunID, runtime.Failed, runtime.Completed); run.Error == nil || run.Error.Code != "agent_gone" {
			t.Errorf("%s: %+v", run.Status, run.Error)
		}
	}
	checkLog(t, a.log("main"))
}

// A gateway executes nothing, and an agent with a label is executed by servers with that label.
func TestServers_RolesAndLabels(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	onGateway, plain, gpu := make(chan string, 10), make(chan string, 10), make(chan string, 10)
	both := func(ran chan<- string) []plugins.Plugin {
		return []plugins.Plugin{answers("any", "x", ran), labelled{answers("big", "x", ran), "gpu"}}
	}
	gateway, _ := member(t, url, runtime.Config{Identity: runtime.Identity{Role: runtime.Gateway, Labels: []string{"gpu"}}}, both(onGateway)...)
	worker, _ := member(t, url, runtime.Config{}, both(plain)...)
	if list := runtime.Differences(worker.known()); len(list) != 1 || !strings.HasPrefix(list[0], "No server with the label gpu") {
		t.Errorf("without a server that has the label: %q", list)
	}
	for _, s := range []runtime.Started{gateway.start("1", "any", "go"), worker.start("2", "any", "go")} {
		gateway.wait(s.RunID, runtime.Completed)
	}
	waits := worker.start("3", "big", "go")
	member(t, url, runtime.Config{Identity: runtime.Identity{Role: runtime.Worker, Labels: []string{"gpu"}}}, both(gpu)...)
	gateway.wait(waits.RunID, runtime.Completed)
	gateway.wait(gateway.start("4", "big", "go").RunID, runtime.Completed)
	gateway.until("the gateway knows how many servers serve clients, and how many execute runs", func() bool {
		return gateway.CountServers() == runtime.ServerCounts{Clients: 2, Runs: 2}
	})
	if len(onGateway) != 0 || len(gpu) < 2 || len(plain)+len(gpu) != 4 {
		t.Errorf("the gateway has executed %d runs, the plain server %d, that with the label %d", len(onGateway), len(plain), len(gpu))
	}
}

// A run keeps the graph of its start. A server with another definition of the workflow, and without the graph's agents, leaves it alone.
func TestServers_LeaveRunsOfOtherDefinitions(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	release := make(chan struct{})
	flow := func(agent string) plugins.Workflow {
		return plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "one", Agent: agent}}}
	}
	busy := agent{"busy", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return agui.WorkerOutput{}, ctx.Err()
	}}
	first := runtime.Config{Limits: runtime.Limits{Runs: 1}}
	b, _ := member(t, url, first, busy, answers("new", "x", nil), flow("new"))
	b.start("busy", "busy", "go")
	s := b.startWorkflow("main", "flow", "go")
	a, _ := member(t, url, runtime.Config{}, answers("old", "x", nil), flow("old"))
	other := a.startWorkflow("other", "flow", "go")
	a.wait(other.RunID, runtime.Completed)
	if run := a.run(s); run.Status != runtime.Queued {
		t.Errorf("the run is %s", run.Status)
	}
	close(release)
	if run := a.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
		t.Errorf("it has failed: %+v", run.Error)
	}
}

// Long parts are left out of a server's description. Others do not end runs of plugins that they do not know.
func TestServers_TellLargeOffers(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	many := func(prefix string, n, size int) (list []plugins.Plugin) {
		schema := json.RawMessage(`{"type":"object","title":"` + strings.Repeat("x", size) + `"}`)
		for i := range n {
			list = append(list, tool{info: plugins.Info{Name: fmt.Sprint(prefix, i), Description: strings.Repeat("x", size), Parameters: schema}})
		}
		return list
	}
	release := make(chan struct{})
	defer close(release)
	busy := agent{"busy", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return agui.WorkerOutput{}, ctx.Err()
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "n", Tool: "huge1"}}}
	a, _ := member(t, url, runtime.Config{}, hello)
	member(t, url, runtime.Config{}, many("wordy", 3, 200_000)...)
	member(t, url, runtime.Config{}, many("long", 5, 240_000)...)
	huge, _ := member(t, url, runtime.Config{Limits: runtime.Limits{Runs: 1}}, append(many("huge", 10_000, 1), busy, flow)...)
	a.until("a knows what all offer", func() bool {
		_, ok := a.Offered(local).Agent("busy")
		return ok && len(a.Offered(local).Tools()) == 8
	})
	for name, schema := range map[string]bool{"wordy1": true, "long1": false} {
		if got, ok := a.Offered(local).Tool(name); !ok || got.Info().Description != "" || got.Info().Parameters != nil != schema {
			t.Errorf("%s is told as %+v", name, got.Info())
		}
	}
	huge.start("busy", "busy", "go")
	s := huge.startWorkflow("main", "flow", "go")
	<-time.After(8 * time.Second) // a sweep
	if run := a.run(s); a.WaitOf(t.Context(), &run) != nil && a.WaitOf(t.Context(), &run).Reason == "no_server" {
		t.Errorf("a run of what a was not told is %s and waits for %+v", run.Status, a.WaitOf(t.Context(), &run))
	}
}

// Runs of a workflow that no server has any more go on with the graph of their start, at a server with its agents.
func TestServers_ExecuteRunsOfRemovedWorkflows(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	asks := agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.Ask(ctx, agui.Interrupt{Message: "Well?"})
		return agui.WorkerOutput{}, err
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "ask", Agent: "asks"}, {ID: "end", Agent: "half", Needs: []string{"ask"}}}}
	short := plugins.Workflow{Name: "short", Nodes: []plugins.Node{{ID: "only", Agent: "half"}}}
	hangs, goesOn := halves("half")
	b, _ := member(t, url, runtime.Config{Limits: runtime.Limits{Runs: 1}}, asks, hangs, flow, short)
	waiting := b.startWorkflow("waiting", "flow", "go")
	b.wait(waiting.RunID, runtime.Waiting)
	running := b.startWorkflow("running", "short", "go")
	<-hangs.began
	queued := b.startWorkflow("queued", "short", "go")
	lacks, _ := member(t, url, runtime.Config{}, asks)
	b.down()
	open, err := lacks.Interrupts(t.Context(), local, waiting.RunID)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	if _, err := lacks.Resume(t.Context(), local, waiting.RunID, []agui.ResumeEntry{{InterruptID: open[0].ID, Status: "resolved"}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []runtime.Started{waiting, running, queued} {
		lacks.until("it waits for a server", func() bool {
			run := lacks.run(s)
			w := lacks.WaitOf(t.Context(), &run)
			return w != nil && w.Reason == "no_server"
		})
	}
	c, _ := member(t, url, runtime.Config{}, asks, goesOn)
	for _, s := range []runtime.Started{waiting, running, queued} {
		if run := c.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
			t.Errorf("%s: %+v", s.ThreadID, run.Error)
		}
		checkLog(t, c.log(s.ThreadID))
	}
}
