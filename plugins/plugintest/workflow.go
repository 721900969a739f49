package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	registry "github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/graph"
)

// WorkflowResult is the result of a workflow.
type WorkflowResult struct {
	Answer string
	Err    error                // of the node that has failed; ErrWaiting if the Answers did not suffice
	Nodes  map[string]*Result   // of each executed node, of a map's items as read[0], from its last execution; skipped nodes are missing
	Waits  map[string]time.Time // the ends of the waits of nodes
}

// RunWorkflow runs a workflow for its author's tests, with the agents and tools in cfg: one node after the other, each as Run does, and
// retries at once. A wait of a node for a time moves the clock of
// expressions. The times of Events count from the beginning of each node that waits for one. Questions of all nodes use cfg's Answers in order; a crash happens in each node. It fails tb if a server would refuse
// the workflow at its start.
func RunWorkflow(tb testing.TB, w plugins.Workflow, cfg Config) *WorkflowResult {
	tb.Helper()
	reg := new(registry.Registry)
	list := []plugins.Plugin{w}
	for _, a := range cfg.Agents {
		list = append(list, a)
	}
	for _, t := range cfg.Tools {
		list = append(list, t)
	}
	err := cmp.Or(reg.Add(list...), reg.Validate())
	if err == nil {
		_, err = graph.Compile(reg)
	}
	res := &WorkflowResult{Err: err, Nodes: make(map[string]*Result), Waits: make(map[string]time.Time)}
	waited := func(node string, until time.Time) { res.Waits[node] = until }
	if err != nil {
		tb.Fatalf("%s: %v", w.Name, err)
		return res
	}
	output, err := graph.Play(tb.Context(), reg, w.Name, cfg.query(), cfg.Input.State, waited, func(n *graph.Node, query string) (graph.Executed, error) {
		agent, ok := reg.Agent(n.Agent)
		call := &toolNode{name: n.Tool, args: json.RawMessage(query)}
		asks, waits := &askNode{n: n, message: query}, &waitNode{n: n}
		switch {
		case n.Ask != nil:
			agent = asks
		case n.Wait.Event != "":
			agent = waits
		case !ok:
			agent = call
		}
		cfg.Input.Node, cfg.Input.Query = n.ID, query
		got := Run(tb, agent, cfg)
		res.Nodes[n.StepName()] = got
		cfg.Answers = cfg.Answers[min(len(got.Questions), len(cfg.Answers)):]
		cfg.Input.State = got.state
		switch {
		case got.Err != nil:
			return graph.Executed{}, got.Err
		case n.Ask != nil:
			return graph.Executed{Answer: asks.answer, State: got.state}, nil
		case n.Wait.Event != "":
			if at := slices.IndexFunc(cfg.Events, func(e Event) bool { return e.Name == n.Wait.Event }); at >= 0 && !waits.got.Expired {
				cfg.Events = slices.Delete(slices.Clone(cfg.Events), at, at+1)
			}
			return graph.Executed{Output: graph.Waited(waits.got), State: got.state}, nil
		case ok:
			raw, err := json.Marshal(&got.Output)
			return graph.Executed{Output: raw, State: got.state}, err
		}
		raw, err := json.Marshal(&call.out)
		return graph.Executed{Output: graph.ToolResult(reg, n.Tool, raw, &call.out), State: got.state}, err
	})
	res.Answer, res.Err = graph.Answer(output), err
	return res
}

// query returns the query of the run.
func (cfg *Config) query() string {
	if n := len(cfg.Messages); n > 0 {
		return cmp.Or(cfg.Input.Query, cfg.Messages[n-1].Content)
	}
	return cfg.Input.Query
}

// askNode is a node that asks, as an agent.
type askNode struct {
	n       *graph.Node
	message string
	answer  plugins.Answer
}

func (a *askNode) Info() plugins.Info { return plugins.Info{Name: a.n.ID} }

func (a *askNode) Run(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	a.answer, err = run.Ask(ctx, agui.Interrupt{Reason: "input_required", Message: a.message, ResponseSchema: a.n.Ask.Schema})
	return out, err
}

// waitNode is a node that waits for an event, as an agent.
type waitNode struct {
	n   *graph.Node
	got plugins.Received
}

func (w *waitNode) Info() plugins.Info { return plugins.Info{Name: w.n.ID} }

func (w *waitNode) Run(ctx context.Context, run *plugins.Run) (out agui.WorkerOutput, err error) {
	within := cmp.Or(w.n.Wait.Within, plugins.LongestWait)
	w.got, err = run.WaitFor(ctx, w.n.Wait.Event, plugins.Within(within))
	return out, err
}

// toolNode is a node that calls a tool, as an agent.
type toolNode struct {
	name string
	args json.RawMessage
	out  agui.ToolOutput
}

func (t *toolNode) Info() plugins.Info { return plugins.Info{Name: t.name} }

func (t *toolNode) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	out, err := run.CallTool(ctx, t.name, t.args)
	if t.out = out; err == nil && out.Status == agui.StatusFailure {
		why := cmp.Or(out.Error, &agui.OutputError{Code: "tool_failed", Message: out.ResultSummary})
		err = &plugins.Error{Code: why.Code, Message: why.Message, Retryable: why.Retryable}
	}
	return agui.WorkerOutput{Answer: out.ResultSummary}, err
}
