package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// caller is a worker that asks before each model call. It makes one call per letter of its query, and each takes 60
// tokens. made counts the calls.
func caller(made *atomic.Int64) agent {
	return agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range run.Input.Query {
			if err := run.Do(ctx, "model", nil, func(ctx context.Context) error {
				if err := run.MayCallModel(ctx, agui.TokenUsage{}); err != nil {
					return err
				}
				made.Add(1)
				return run.ModelCall(ctx, plugins.ModelCall{Usage: tokensOf("m", 40, 20)})
			}); err != nil {
				return agui.WorkerOutput{}, err
			}
			if _, err := run.CallTool(ctx, "noop", nil); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{Answer: "done"}, nil
	}}
}

// noop is a tool that counts its calls.
func noop(called *atomic.Int64) tool {
	return tool{plugins.Info{Name: "noop"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		called.Add(1)
		return agui.ToolOutput{ResultSummary: "fine"}, nil
	}}
}

// careless does not ask before its calls, and reports the tokens that it used.
var careless = agent{"careless", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	for range run.Input.Query {
		if err := run.Usage(ctx, tokensOf("m", 40, 20)); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{Answer: "done"}, nil
}}

// asking takes 60 tokens, and asks a question in between.
var asking = agent{"asking", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if err := run.Usage(ctx, tokensOf("m", 40, 20)); err != nil {
		return agui.WorkerOutput{}, err
	}
	_, err := run.Ask(ctx, agui.Interrupt{Message: "?"})
	return agui.WorkerOutput{Answer: "done"}, err
}}

// tokensADay is a budget of each project.
func tokensADay(limit float64, over string) data.Budget {
	return data.Budget{Name: "daily", Scope: data.OfProject, Per: data.PerDay, Unit: data.UnitTokens, Limit: limit, Over: over}
}

func budgeted(list ...data.Budget) runtime.Config {
	return runtime.Config{Limits: runtime.Limits{Budgets: list}}
}

// used checks the use of the first budget.
func (b *bench) used(want int64) {
	b.t.Helper()
	list, err := b.Budgets(local)
	if err != nil || len(list) == 0 || list[0].Used != want {
		b.t.Errorf("%+v %v, want %d used", list, err, want)
	}
}

// The run that exceeds a budget is not stopped, but its further model calls are refused.
func TestBudget_RefusesModelCalls(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	b := open(t, budgeted(tokensADay(200, "")), caller(&made), noop(&called))
	b.wait(b.start("main", "caller", "xx").RunID, runtime.Completed)
	b.used(120)
	if run := b.wait(b.start("over", "caller", "xxxx").RunID, runtime.Failed); run.Error == nil || run.Error.Code != "budget_exceeded" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	recs := b.log("over")
	checkLog(t, recs)
	if got := reports(recs); !slices.Equal(got, []string{`{"name":"daily","used":180,"limit":200}`, `{"name":"daily","used":240,"limit":200}`}) {
		t.Errorf("the log reports %v", got)
	}
	b.used(240)
}

// reports returns the values of a log's budget events.
func reports(recs []*runtime.Record) (list []string) {
	for _, rec := range recs {
		if e, ok := rec.Event.(agui.Custom); ok && e.Name == agui.BudgetEvent {
			list = append(list, string(e.Value))
		}
	}
	return list
}

// A worker that only reports its usage learns from the report that it exceeded the budget.
func TestBudget_StopsWorkerThatReports(t *testing.T) {
	t.Parallel()
	b := open(t, budgeted(tokensADay(100, "")), careless)
	run := b.wait(b.start("main", "careless", "xxxxxxxx").RunID, runtime.Failed)
	if run.Error == nil || run.Error.Code != "budget_exceeded" || run.Usage[0].InputTokens != 120 {
		t.Errorf("%+v after %+v", run.Error, run.Usage)
	}
}

// The model calls of a run's sub-agents are counted and refused like the run's own.
func TestBudget_CountsSubagents(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	parent := agent{"parent", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "caller", "xxxx")
	}}
	own := data.Budget{Name: "parents", Scope: data.OfAgent, Of: "parent", Per: data.PerMonth, Unit: "EUR", Limit: 100}
	cfg := budgeted(own)
	cfg.Prices = data.Prices{Currency: "EUR", Models: map[string]data.Price{"m": {Input: 1e6, Output: 1e6}}}
	b := open(t, cfg, parent, caller(&made), noop(&called))
	b.wait(b.start("main", "parent", "go").RunID, runtime.Failed)
	b.used(120 * data.Money)
	checkLog(t, b.log("main"))
}

// A run's own budget ends it in a valid state, and leaves others alone.
func TestBudget_OfRun(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	b := open(t, budgeted(data.Budget{Name: "each", Scope: data.OfRun, Of: "caller", Unit: data.UnitTokens, Limit: 100}), caller(&made), careless, noop(&called))
	for _, thread := range []string{"one", "two"} {
		if run := b.wait(b.start(thread, "caller", "xxx").RunID, runtime.Failed); run.Error.Code != "budget_exceeded" || run.Usage[0].InputTokens != 80 {
			t.Errorf("%+v after %+v", run.Error, run.Usage)
		}
		recs := b.log(thread)
		checkLog(t, recs)
		if got := reports(recs); !slices.Equal(got, []string{`{"name":"each","used":120,"limit":100}`}) {
			t.Errorf("the log reports %v", got)
		}
	}
	b.wait(b.start("three", "careless", "xxxx").RunID, runtime.Completed)
	if made.Load() != 4 || called.Load() != 4 {
		t.Errorf("%d model calls and %d tool calls", made.Load(), called.Load())
	}
}

// decided answers the only question of a run.
func (b *bench) decided(c runtime.Caller, run, payload string) error {
	b.t.Helper()
	asked, err := b.Runs.Interrupts(b.t.Context(), local, run)
	if err != nil || len(asked) != 1 {
		b.t.Fatal(asked, err)
	}
	entry := agui.ResumeEntry{InterruptID: asked[0].ID, Status: "resolved", Payload: json.RawMessage(payload)}
	if payload == "" {
		entry = agui.ResumeEntry{InterruptID: asked[0].ID, Status: "cancelled"}
	}
	_, err = b.Resume(b.t.Context(), c, run, []agui.ResumeEntry{entry})
	return err
}

var operator = runtime.MustCaller("default", "olga", runtime.RoleOperator)

// A budget that asks has an operator raise it, let the run continue, or end it. No call is made twice, also after restarts.
func TestBudget_AsksOperator(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	cfg := budgeted(tokensADay(100, data.OverAsk))
	cfg.Accounts = true
	b := open(t, cfg, caller(&made), noop(&called))
	wants := func(err error, code string) {
		t.Helper()
		if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	restart := func() {
		b.down()
		b.up()
	}
	raised := b.start("raised", "caller", "xxxxx")
	b.wait(raised.RunID, runtime.Waiting)
	goes := b.start("goes", "caller", "xx") // a budget that asks refuses no start
	b.wait(goes.RunID, runtime.Waiting)
	ends := b.start("ends", "caller", "xx")
	b.wait(ends.RunID, runtime.Waiting)
	left := b.start("left", "caller", "xx")
	b.wait(left.RunID, runtime.Waiting)
	restart()

	asked, err := b.Runs.Interrupts(t.Context(), local, raised.RunID)
	if err != nil || len(asked) != 1 || !strings.Contains(string(asked[0].Metadata), `"by":"operator","kind":"budget","name":"daily","scope":"project","subject":"default","unit":"tokens","used":120,"limit":100`) {
		t.Fatal(asked, err)
	}
	wants(b.decided(local, raised.RunID, `{"action":"raise","limit":500}`), "operators_only")
	wants(b.decided(local, raised.RunID, `{"action":"continue"}`), "operators_only")
	wants(b.decided(operator, raised.RunID, `{"action":"raise"}`), "invalid_answer")
	wants(b.decided(operator, raised.RunID, `{"action":"raise","limit":100}`), "invalid_answer")
	wants(b.decided(operator, raised.RunID, `{"action":"more"}`), "invalid_answer")
	for _, err := range []error{
		b.decided(operator, raised.RunID, `{"action":"raise","limit":220}`), b.decided(operator, ends.RunID, `{"action":"end"}`), b.decided(local, left.RunID, ""),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, run := range []string{ends.RunID, left.RunID} {
		if run := b.wait(run, runtime.Failed); run.Error == nil || run.Error.Code != "budget_exceeded" {
			t.Errorf("the run failed with %+v", run.Error)
		}
	}
	b.wait(raised.RunID, runtime.Waiting) // again, at 240 of 220
	b.used(240)
	restart()
	if list, err := b.Budgets(local); err != nil || list[0].Amount != 220 {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
	if err := b.decided(operator, goes.RunID, `{"action":"continue"}`); err != nil {
		t.Error(err)
	}
	b.wait(goes.RunID, runtime.Completed)
	b.used(360)
	if err := b.decided(operator, raised.RunID, `{"action":"raise","limit":1000}`); err != nil {
		t.Error(err)
	}
	b.wait(raised.RunID, runtime.Completed)
	b.used(420)
	if made.Load() != 7 || called.Load() != 7 {
		t.Errorf("%d model calls and %d tool calls, want 7 of each", made.Load(), called.Load())
	}
	for _, thread := range []string{"raised", "goes", "ends", "left"} {
		checkLog(t, b.log(thread))
	}
	b.wait(b.start("later", "caller", "x").RunID, runtime.Completed)
}

// The raise of a run's own budget is for that run alone.
func TestBudget_OfRunIsRaised(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	b := open(t, budgeted(data.Budget{Name: "each", Scope: data.OfRun, Unit: data.UnitTokens, Limit: 100, Over: data.OverAsk}), caller(&made), noop(&called))
	for _, thread := range []string{"one", "two"} {
		run := b.start(thread, "caller", "xxxxx").RunID
		for _, limit := range []int{200, 299} {
			b.wait(run, runtime.Waiting)
			must(t, b.decided(local, run, fmt.Sprintf(`{"action":"raise","limit":%d}`, limit)))
		}
		b.wait(run, runtime.Completed)
	}
	if made.Load() != 10 || called.Load() != 10 {
		t.Errorf("%d model calls and %d tool calls, want 10 of each", made.Load(), called.Load())
	}
}

// Nodes that run at the same time ask one question, and all go on with its answer.
func TestBudget_AsksOnceForParallelNodes(t *testing.T) {
	t.Parallel()
	var made, called atomic.Int64
	nodes := plugins.Workflow{Name: "both"}
	for i := range 4 {
		nodes.Nodes = append(nodes.Nodes, plugins.Node{ID: fmt.Sprint("n", i), Agent: "caller"})
	}
	b := open(t, budgeted(tokensADay(1, data.OverAsk)), caller(&made), noop(&called), nodes)
	b.wait(b.start("first", "caller", "x").RunID, runtime.Completed) // uses the budget up
	s := b.request(runtime.StartRequest{WorkflowID: "both", ThreadID: "main", Messages: user("xx")})
	b.wait(s.RunID, runtime.Waiting)
	must(t, b.decided(local, s.RunID, `{"action":"continue"}`))
	b.wait(s.RunID, runtime.Completed)
	if made.Load() != 9 {
		t.Errorf("%d model calls, want 9", made.Load())
	}
	checkLog(t, b.log("main"))
}

// Calls reserve what they are expected to use, and wait for each other: fifty runs at once use a budget up and do not exceed it, whether their calls
// say what they expect or not. Those of one run do not exceed its own budget.
func TestBudget_IsReserved(t *testing.T) {
	t.Parallel()
	const runs, limit = 50, 600
	each := tokensADay(limit, "")
	own := data.Budget{Name: "own", Scope: data.OfRun, Unit: data.UnitTokens, Limit: limit}
	nodes := plugins.Workflow{Name: "parallel"}
	for i := range 30 {
		nodes.Nodes = append(nodes.Nodes, plugins.Node{ID: fmt.Sprint("n", i), Agent: "worker"})
	}
	for name, c := range map[string]struct {
		budget   data.Budget
		estimate agui.TokenUsage
		runs     int
		start    runtime.StartRequest
	}{
		"estimated":     {each, agui.TokenUsage{InputTokens: 40, OutputTokens: 20}, runs, runtime.StartRequest{Agent: "worker"}},
		"not estimated": {each, agui.TokenUsage{}, runs, runtime.StartRequest{Agent: "worker"}},
		"of a run":      {own, agui.TokenUsage{InputTokens: 40, OutputTokens: 20}, 1, runtime.StartRequest{WorkflowID: "parallel"}},
	} {
		t.Run(name, func(t *testing.T) {
			var made atomic.Int64
			worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				for range 3 {
					if err := run.Do(ctx, "model", nil, func(ctx context.Context) error {
						if err := run.MayCallModel(ctx, c.estimate); err != nil {
							return err
						}
						made.Add(1)
						return run.ModelCall(ctx, plugins.ModelCall{Usage: tokensOf("m", 40, 20)})
					}); err != nil {
						return agui.WorkerOutput{}, err
					}
				}
				return agui.WorkerOutput{Answer: "done"}, nil
			}}
			b := open(t, budgeted(c.budget), worker, nodes)
			var started sync.WaitGroup
			for i := range c.runs {
				started.Go(func() {
					req := c.start
					req.ThreadID, req.Messages = fmt.Sprint(i), user("x")
					_, err := b.StartRun(t.Context(), local, req)
					if e, ok := errors.AsType[*runtime.Error](err); err != nil && (!ok || e.Code != "budget_exceeded") {
						t.Error(err)
					}
				})
			}
			started.Wait()
			b.quiet()
			if made.Load() != limit/60 {
				t.Errorf("%d calls were made, want %d", made.Load(), limit/60)
			}
		})
	}
}

// A reservation ends with its Do or its worker, whatever that did with its call.
func TestBudget_ReservationsEnd(t *testing.T) {
	t.Parallel()
	forgetful := agent{"forgetful", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "lost", nil, func(ctx context.Context) error {
			if err := run.MayCallModel(ctx, agui.TokenUsage{}); err != nil {
				return err
			}
			return run.MayCallModel(ctx, agui.TokenUsage{}) // instead of the first
		}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.MayCallModel(ctx, agui.TokenUsage{}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if run.Input.Query == "panic" {
			panic("the worker fails")
		}
		return agui.WorkerOutput{Answer: "done"}, nil
	}}
	b := open(t, budgeted(tokensADay(100, "")), forgetful)
	b.wait(b.start("one", "forgetful", "x").RunID, runtime.Completed)
	b.wait(b.start("two", "forgetful", "panic").RunID, runtime.Failed)
	b.wait(b.start("three", "forgetful", "x").RunID, runtime.Completed)
}

// quiet waits until no run is at work.
func (b *bench) quiet() {
	b.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if s := b.Stats(); s.Running == 0 && s.Queued == 0 {
			return
		}
		if time.Now().After(end) {
			b.t.Fatal("runs do not end")
		}
	}
}

// A budget of one project's agent is not listed in another.
func TestBudget_NamesNoOtherProjectsAgent(t *testing.T) {
	t.Parallel()
	of := func(agent string) data.Budget {
		return data.Budget{Name: "of " + agent, Scope: data.OfRun, Of: agent, Unit: data.UnitTokens, Limit: 1}
	}
	b := open(t, budgeted(of("asking"), of("private"), of("")), asking, private{asking, "elsewhere"})
	for project, want := range map[string]string{"default": "of asking, of , ", "elsewhere": "of asking, of private, of , "} {
		list, err := b.Budgets(runtime.MustCaller(project, "local", runtime.RoleUser))
		must(t, err)
		var got strings.Builder
		for _, s := range list {
			got.WriteString(s.Name + ", ")
		}
		if got.String() != want {
			t.Errorf("%s has the budgets %q, want %q", project, got.String(), want)
		}
	}
}

// private is an agent of one project.
type private struct {
	agent
	project string
}

func (p private) Info() plugins.Info {
	return plugins.Info{Name: "private", Projects: []string{p.project}}
}

// A usage that cannot be is counted within bounds.
func TestUsage_IsBounded(t *testing.T) {
	t.Parallel()
	liar := agent{"liar", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		u := tokensOf("m", 40, math.MaxInt64)
		u.CachedInputTokens = 41
		return agui.WorkerOutput{Answer: "done"}, run.ModelCall(ctx, plugins.ModelCall{Usage: u})
	}}
	b := open(t, runtime.Config{}, liar)
	run := b.wait(b.start("main", "liar", "x").RunID, runtime.Completed)
	if u := run.Usage[0]; u.InputTokens != 40 || u.CachedInputTokens != 40 || u.OutputTokens != 1e15 {
		t.Errorf("%+v", u)
	}
}
