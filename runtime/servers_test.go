package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
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

// A run is executed by a server with its agents, their labels and its tools, whichever has accepted it. Differences are named, and a server
// refuses what only another one knows.
func TestServers_ExecuteWhatOthersAccept(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	ran := make(chan string, 10)
	sum := tool{plugins.Info{Name: "sum"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return agui.ToolOutput{}, nil }}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "head", Agent: "far"}, {ID: "two", Tool: "sum", Input: `{"a": 1}`, Needs: []string{"head"}}}}
	both := func(rule string) plugins.Agent {
		g := verdict(plugins.Verdict{Verdict: plugins.Allow})
		g.Rule = rule
		return guarded{agent{name: "both"}, plugins.Guards{Input: []plugins.Guard{g}}}
	}
	lone := plugins.Workflow{Name: "lone", Nodes: []plugins.Node{{ID: "only", Agent: "hello"}}}
	far := labelled{answers("far", "b", ran), "b"}
	a, _ := member(t, url, runtime.Config{Addr: "a:1", Identity: runtime.Identity{Settings: map[string]string{"x": "1"}}}, far, sum, flow, both("true"))
	b, _ := member(t, url, runtime.Config{Addr: "b:1", Identity: runtime.Identity{Labels: []string{"b"}, Settings: map[string]string{"x": "2"}}}, far, sum, flow, both("false"), hello, lone)
	for _, s := range []runtime.Started{a.start("agent", "far", "go"), a.startWorkflow("workflow", "flow", "go")} {
		if run := a.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
			t.Errorf("%s: %+v", run.WorkflowID, run.Error)
		}
	}
	if len(ran) != 2 {
		t.Errorf("b has executed %d runs of its agent", len(ran))
	}
	b.run(b.startWorkflow("continued", "lone", "go"))
	refused := func(req runtime.StartRequest, code, want string) {
		t.Helper()
		req.Messages = user("go")
		_, err := a.StartRun(t.Context(), local, req)
		if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != code || refusal.Detail != want {
			t.Errorf("what a does not know is refused with %v", err)
		}
	}
	a.until("a knows what b offers", func() bool { return len(a.known()) == 2 && a.known()[1].Offer != nil })
	refused(runtime.StartRequest{Agent: "hello"}, "unknown_agent", `This server does not know the agent or workflow "hello", but another one does: load the same file everywhere`)
	refused(runtime.StartRequest{ThreadID: "continued"}, "unknown_workflow", `This server does not know the agent or workflow "lone", but another one does: load the same file everywhere`)
	if got, want := runtime.Differences(a.known()), []string{
		"The settings x differ between a:1 and b:1", "The definitions of the agent both differ between a:1 and b:1",
		"Other servers have definitions that a:1 lacks: agent hello, workflow lone",
	}; !slices.Equal(got, want) {
		t.Errorf("they differ: %q", got)
	}
	b.down()
	a.until("a has seen that b has ended", func() bool { return len(a.known()) == 1 })
	refused(runtime.StartRequest{Agent: "hello"}, "unknown_agent", `There is no agent or workflow "hello"`)
	late := a.run(a.start("late", "far", "go"))
	a.until("a run whose label no server has waits for one", func() bool {
		w := a.Logs.WaitOf(t.Context(), &late)
		return late.Status == runtime.Queued && w != nil && w.Reason == "no_server"
	})
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
			w := a.Logs.WaitOf(t.Context(), &run)
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

// distant is a toolbox whose tool is known, and which is healthy, once it has started.
type distant struct{ *slowBox }

func newDistant() distant {
	return distant{&slowBox{make(chan struct{}), tool{plugins.Info{Name: "slow.get"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{}, nil
	}}}}
}

func (d distant) Start(context.Context) error { close(d.settled); return nil }

func (d distant) Check(context.Context) error {
	if len(d.Tools()) == 0 {
		return errors.New("it was not started")
	}
	return nil
}

// A gateway starts no plugins, also when they are replaced. Another server executes its runs, also of tools that the gateway cannot know.
func TestServers_GatewayStartsNothing(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	first, second := newDistant(), newDistant()
	gateway, _ := member(t, url, runtime.Config{Identity: runtime.Identity{Role: runtime.Gateway}}, first)
	member(t, url, runtime.Config{}, newDistant())
	call := func() {
		must(t, gateway.Ready(t.Context()))
		s, err := gateway.StartRun(t.Context(), local, runtime.StartRequest{Tool: "slow.get", Messages: user(`{}`)})
		must(t, err)
		if run := gateway.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
			t.Errorf("the call has failed: %+v", run.Error)
		}
	}
	call()
	reg := new(host.Registry)
	must(t, reg.Add(second))
	must(t, gateway.Replace(t.Context(), reg))
	call()
	if _, err := gateway.StartRun(t.Context(), local, runtime.StartRequest{Tool: "slow.no name", Messages: user(`{}`)}); code(err) != "unknown_tool" {
		t.Errorf("a tool that cannot exist is refused with %v", err)
	}
	if len(first.Tools())+len(second.Tools()) > 0 {
		t.Error("the gateway has started a toolbox")
	}
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
		return gateway.Fleet().Count().Clients == 2 && gateway.Fleet().Count().Runs == 2
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
		return plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "only", Agent: agent}}}
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
	open, err := lacks.Runs.Interrupts(t.Context(), local, waiting.RunID)
	if err != nil || len(open) != 1 {
		t.Fatal(open, err)
	}
	if _, err := lacks.Resume(t.Context(), local, waiting.RunID, []agui.ResumeEntry{{InterruptID: open[0].ID, Status: "resolved"}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []runtime.Started{waiting, running, queued} {
		lacks.until("it waits for a server", func() bool {
			run := lacks.run(s)
			w := lacks.Logs.WaitOf(t.Context(), &run)
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
