package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/plugins/typed"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// answering is a worker that returns a function of its query.
func answering(name string, f func(q string) string) agent {
	return agent{name, func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: f(run.Input.Query)}, nil
	}}
}

func (b *bench) startWorkflow(thread, workflow, content string) runtime.Started {
	b.t.Helper()
	return b.request(runtime.StartRequest{WorkflowID: workflow, ThreadID: thread, Messages: user(content)})
}

func TestCancelDuringBackoff(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{}, 1)
	flaky := agent{"flaky", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		defer func() { failed <- struct{}{} }()
		return agui.WorkerOutput{}, &plugins.Error{Message: "not yet", Retryable: true}
	}}
	flow := plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
		{ID: "n", Agent: "flaky", Retry: plugins.Retry{Retries: 2, Initial: time.Hour}},
	}}
	b := open(t, runtime.Config{}, flaky, flow)
	s := b.startWorkflow("main", "flow", "x")
	<-failed
	run, err := b.Cancel(context.Background(), local, s.RunID)
	if err != nil || run.Status != runtime.Cancelled {
		t.Fatalf("run %s, %v", run.Status, err)
	}
	recs := b.log("main")
	checkLog(t, recs)
	if end, ok := recs[len(recs)-1].Event.(agui.RunFinished); !ok || end.Outcome.Type != agui.OutcomeCancelled {
		t.Errorf("the log ends with %+v", recs[len(recs)-1].Event)
	}
	nodes, err := b.Runs.Nodes(context.Background(), local, s.RunID)
	if err != nil || len(nodes) != 1 || nodes[0].Status != runtime.Cancelled {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}

func TestFailureIsShownInFullOnlyWhenItIsMeant(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		err  error
		want string
	}{
		"meant":   {&plugins.Error{Code: "quota", Message: "No quota left"}, "quota: No quota left"},
		"private": {fmt.Errorf("password is hunter2"), "agent_failed: The agent failed"},
	}
	for name, c := range cases {
		b := open(t, runtime.Config{}, agent{"bad", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, c.err
		}})
		s := b.start("main", "bad", "x")
		run := b.wait(s.RunID, runtime.Failed)
		if got := run.Error.Code + ": " + run.Error.Message; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		checkLog(t, b.log("main"))
	}
}

func TestPanicsHarmOnlyTheirRun(t *testing.T) {
	t.Parallel()
	inRun := agent{"inRun", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { panic("boom") }}
	inGo := agent{"inGo", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		run.Go(func() error { panic("boom") })
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{}, inRun, inGo, hello)
	for _, name := range []string{"inRun", "inGo"} {
		s := b.start(name, name, "x")
		if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "panic" {
			t.Errorf("%s: %+v", name, run.Error)
		}
		checkLog(t, b.log(name))
	}
	b.wait(b.start("ok", "hello", "x").RunID, runtime.Completed)
}

func TestEmitsAfterTheEndAreRefused(t *testing.T) {
	t.Parallel()
	kept := make(chan *plugins.Run, 1)
	leaky := agent{"leaky", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		kept <- run
		return agui.WorkerOutput{Answer: "bye"}, nil
	}}
	b := open(t, runtime.Config{}, leaky)
	s := b.start("main", "leaky", "x")
	b.wait(s.RunID, runtime.Completed)
	before := len(b.log("main"))
	if err := (<-kept).Emit(agui.Custom{Name: "late", Value: []byte("1")}); err == nil {
		t.Error("an event after the end was taken")
	}
	b.wait(b.start("main", "leaky", "again").RunID, runtime.Completed)
	if after := b.log("main"); len(after) != 2*before {
		t.Errorf("%d events, want %d", len(after), 2*before)
	}
}

func TestStepTimeoutAbandonsTheWorker(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	deaf := agent{"deaf", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		<-leave
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{StepTimeout: time.Millisecond, Grace: time.Millisecond, RunsPerAgent: 1}}, deaf)
	s := b.start("main", "deaf", "x")
	if run := b.wait(s.RunID, runtime.Failed); run.Error.Code != "timeout" {
		t.Errorf("error %+v", run.Error)
	}
	checkLog(t, b.log("main"))
	next := b.start("other", "deaf", "x") // the abandoned worker keeps its slot
	if run, _ := b.Runs.Get(context.Background(), local, next.RunID); run.Status != runtime.Queued {
		t.Errorf("the next run is %s", run.Status)
	}
	close(leave)
	b.wait(next.RunID, runtime.Completed, runtime.Failed)
}

func TestBadOutputsFailOnlyTheirRun(t *testing.T) {
	t.Parallel()
	returns := func(name string, out agui.ToolOutput) tool {
		return tool{plugins.Info{Name: name}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) { return out, nil }}
	}
	hints := agent{"hints", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "x", UIHints: []byte(`{no`)}, nil
	}}
	plugs := []plugins.Plugin{
		returns("bare", agui.ToolOutput{Status: agui.StatusFailure, ResultSummary: "no luck"}),
		returns("broken", agui.ToolOutput{UIHints: []byte(`{no`)}),
		returns("fine", agui.ToolOutput{ResultSummary: "fine"}), hints,
		plugins.Workflow{Name: "bare-failure", Nodes: []plugins.Node{{ID: "a", Tool: "bare", Input: `{"x": 1}`}}},
		plugins.Workflow{Name: "bad-tool-hints", Nodes: []plugins.Node{{ID: "a", Tool: "broken", Input: `{"x": 1}`}}},
		plugins.Workflow{Name: "bad-arguments", Nodes: []plugins.Node{{ID: "a", Tool: "fine", Input: `query`}}},
		plugins.Workflow{Name: "bad-hints", Nodes: []plugins.Node{{ID: "a", Agent: "hints"}}},
	}
	b := open(t, runtime.Config{}, plugs...)
	for _, w := range b.cfg.Registry.Workflows() {
		b.wait(b.startWorkflow(w.Name, w.Name, "hello").RunID, runtime.Failed)
		checkLog(t, b.log(w.Name))
	}
}

func TestAbandonedWorkerDoesNotBlockItsStep(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	busy := agent{"busy", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for {
			select {
			case <-stop:
				return agui.WorkerOutput{}, nil
			default:
				_ = run.Do(context.Background(), "x", nil, func(context.Context) error { return nil })
			}
		}
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{StepTimeout: time.Millisecond, Grace: time.Millisecond}}, busy)
	var runs []runtime.Started
	for i := range 20 {
		runs = append(runs, b.start(fmt.Sprint("t", i), "busy", "x"))
	}
	for _, s := range runs {
		b.wait(s.RunID, runtime.Failed)
	}
	close(stop)
}

// The output of an agent or tool with a schema is an object in expressions, and the last one is the run's result. The other
// members of a schema are checked at start.
func TestWorkflow_TypedOutputs(t *testing.T) {
	t.Parallel()
	place := agent{"place", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "Oslo", Result: []byte(`{"city":"Oslo","km":[3]}`)}, nil
	}}
	type in struct {
		City string `json:"city"`
	}
	type sky struct {
		Sky string `json:"sky"`
	}
	weather := typed.Tool(plugins.Info{Name: "weather"}, func(_ context.Context, _ *plugins.Call, in in) (sky, error) {
		return sky{"grey in " + in.City}, nil
	})
	served := tool{plugins.Info{Name: "served"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "text", UIHints: []byte(`{"structuredContent":{"n":4}}`)}, nil
	}}
	flow := func(input string) plugins.Workflow {
		return plugins.Workflow{Name: "flow", Nodes: []plugins.Node{
			{ID: "a", Agent: "place"},
			{ID: "s", Tool: "served"},
			{ID: "b", Tool: "weather", Needs: []string{"a", "s"}, When: "a.output.km[0] == 3 and s.output.n == 4", Input: "{city: nodes.a.output.city}"},
			{ID: "c", Tool: "weather", Needs: []string{"b"}, Input: input},
		}}
	}
	b := open(t, runtime.Config{}, place, weather, served, flow(`{city: b.output.sky + " and " + a.answer}`))
	s := b.startWorkflow("main", "flow", "Q")
	b.wait(s.RunID, runtime.Completed)
	recs := b.log("main")
	checkLog(t, recs)
	end, _ := recs[len(recs)-1].Event.(agui.RunFinished)
	if want := `{"sky":"grey in grey in Oslo and Oslo"}`; string(end.Result) != want {
		t.Errorf("result %s, want %s", end.Result, want)
	}
	reg := new(host.Registry)
	must(t, reg.Add(place, weather, served, flow(`{city: b.output.skye}`)))
	if _, err := runtime.New(runtime.Config{Store: b.store, Registry: reg}); err == nil || !strings.Contains(err.Error(), "skye") {
		t.Errorf("a member that the schema does not have: %v", err)
	}
}
