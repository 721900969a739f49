package plugintest

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/plugins"
	registry "github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/graph"
)

// WorkflowResult is the result of a workflow.
type WorkflowResult struct {
	Answer string
	Err    error              // of the node that has failed; ErrWaiting if the Answers did not suffice
	Nodes  map[string]*Result // of each executed node, of a map's items as read[0], from its last execution; skipped nodes are missing
}

// RunWorkflow runs a workflow for its author's tests, with the agents and tools in cfg: one node after the other, each as Run does, and
// retries at once. Questions of all nodes use cfg's Answers in order; a crash happens in each node. It fails tb if a server would refuse
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
	res := &WorkflowResult{Err: err, Nodes: make(map[string]*Result)}
	if err != nil {
		tb.Fatalf("%s: %v", w.Name, err)
		return res
	}
	output, err := graph.Play(tb.Context(), reg, w.Name, cfg.query(), cfg.Input.State, func(n *graph.Node, query string) (graph.Executed, error) {
		agent, ok := reg.Agent(n.Agent)
		call := &toolNode{name: n.Tool, args: json.RawMessage(query)}
		if !ok {
			agent = call
		}
		cfg.Input.Node, cfg.Input.Query = n.ID, query
		got := Run(tb, agent, cfg)
		res.Nodes[n.StepName()] = got
		cfg.Answers = cfg.Answers[min(len(got.Questions), len(cfg.Answers)):]
		cfg.Input.State = got.state
		if got.Err != nil {
			return graph.Executed{}, got.Err
		}
		if ok {
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
