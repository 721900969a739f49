package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/expression"
)

// Worker returns the name that the node's events carry as their agent.
func (n *Node) Worker() string {
	return cmp.Or(n.Agent, n.Tool, n.ID)
}

// NeedsMet reports whether all nodes that n needs have ended.
func (n *Node) NeedsMet(nodes map[string]*data.Node) bool {
	for _, id := range n.Needs {
		if s := nodes[id].Status; s != data.Completed && s != data.Skipped && s != data.Failed { // a failure that is not caught ends the run
			return false
		}
	}
	return true
}

// Runs reports whether a node whose needs have ended is executed rather than skipped.
func (n *Node) Runs(ctx context.Context, env func() map[string]any, nodes map[string]*data.Node) (bool, error) {
	skipped := 0
	for _, id := range n.Needs {
		if nodes[id].Status == data.Skipped {
			skipped++
		}
	}
	if len(n.Needs) > 0 && skipped == len(n.Needs) {
		return false, nil
	}
	if n.when == nil {
		return true, nil
	}
	yes, err := n.when.True(ctx, env())
	if err != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if err != nil {
		return false, &plugins.Error{Code: "bad_condition", Message: fmt.Sprintf("Node %s: the condition failed: %s", n.ID, firstLine(err))}
	}
	return yes, nil
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// Computes reports whether the node has an expression over the results of nodes.
func (n *Node) Computes() bool {
	return n.when != nil || n.wait != nil || n.input != nil || n.until != nil || n.message != nil || n.otherwise != nil || n.over != nil
}

// Scope returns the variables of expressions that are evaluated at a time.
func Scope(now time.Time, query string, state json.RawMessage, nodes map[string]*data.Node) map[string]any {
	st, err := expression.Decode(state)
	if err != nil || st == nil {
		st = map[string]any{}
	}
	seen, scope := make(map[string]any, len(nodes)), make(map[string]any, len(nodes)+3)
	for id, n := range nodes {
		if n.Status != data.Completed && n.Status != data.Skipped && n.Status != data.Failed && n.Round == 0 {
			continue
		}
		answer := Answer(n.Output)
		out, _ := expression.Decode(Result(n.Output)) // nil if there is none
		var given struct{ By string }
		_ = json.Unmarshal(n.Output, &given)
		failure := map[string]any{"code": "", "message": ""}
		if e := n.Error; e != nil {
			failure = map[string]any{"code": e.Code, "message": e.Message}
		}
		at := map[string]any{"status": string(n.Status), "answer": answer, "output": out, "round": n.Round, "by": given.By, "error": failure}
		if n.Map != nil {
			at["items"], at["errors"] = out, errorsOf(n.Output)
		}
		short := maps.Clone(at)
		short["status"] = outputStatus(n)
		seen[id], scope[id] = at, short
	}
	scope["query"], scope["state"], scope["nodes"], scope[expression.Now] = query, st, seen, now
	return scope
}

// outputStatus returns a node's status according to its output: success, partial_success, failed or skipped; "" in the first round of one
// that is repeated.
func outputStatus(n *data.Node) string {
	switch {
	case n.Status == data.Skipped:
		return "skipped"
	case n.Status == data.Failed:
		return "failed"
	case n.Status != data.Completed && n.Output == nil:
		return ""
	}
	var o struct {
		Status string `json:"status"`
	}
	_ = json.Unmarshal(n.Output, &o)
	return cmp.Or(o.Status, "success")
}

// Result returns the typed result in a node's output, or all of an output without one.
func Result(output json.RawMessage) json.RawMessage {
	var o struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(output, &o) == nil && o.Result != nil {
		return o.Result
	}
	return output
}

// ToolResult returns the output of a node that calls a tool: raw, the JSON of out, with the typed result if there is one. This is the
// structured content, or the text if the tool has an output schema.
func ToolResult(reg *host.Registry, name string, raw json.RawMessage, out *agui.ToolOutput) json.RawMessage {
	var hints struct {
		Result json.RawMessage `json:"structuredContent"`
	}
	_ = json.Unmarshal(out.UIHints, &hints)
	tool, ok := reg.Tool(name)
	if text := json.RawMessage(out.ResultSummary); ok && hints.Result == nil && tool.Info().Output != nil && json.Valid(text) {
		hints.Result = text
	}
	if hints.Result == nil {
		return raw
	}
	return slices.Concat(raw[:len(raw)-1], []byte(`,"result":`), hints.Result, []byte("}"))
}

// Answer returns the text of a node's output: a worker's answer or a tool's summary.
func Answer(output json.RawMessage) string {
	var o struct {
		Answer        string `json:"answer"`
		ResultSummary string `json:"result_summary"`
	}
	_ = json.Unmarshal(output, &o)
	if o.Answer != "" {
		return o.Answer
	}
	return o.ResultSummary
}

// Query returns a node's input: the value of its mapping, or the run's query with the answers of the needed nodes. A
// tool without a mapping gets none.
func (n *Node) Query(ctx context.Context, run string, env func() map[string]any, nodes map[string]*data.Node) (string, error) {
	if n.Item != nil {
		return n.Item.Input, nil
	}
	if n.input == nil {
		if n.Agent == "" {
			return "{}", nil
		}
		parts := []string{run}
		for _, id := range n.Needs {
			if a := Answer(nodes[id].Output); a != "" {
				parts = append(parts, a)
			}
		}
		return strings.Join(parts, "\n\n"), nil
	}
	return n.text(ctx, n.input, env(), "input mapping")
}

// text returns the value of one of the node's expressions: a string, or any other value as JSON.
func (n *Node) text(ctx context.Context, program *expression.Program, env map[string]any, what string) (string, error) {
	v, err := program.Run(ctx, env)
	if err != nil && ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	var raw json.RawMessage
	if err == nil {
		raw, err = expression.Encode(v)
	}
	if err != nil {
		return "", &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("Node %s: the %s failed: %s", n.ID, what, firstLine(err))}
	}
	return string(raw), nil
}
