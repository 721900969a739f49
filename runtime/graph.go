package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// graphs are the registry's workflows and tool schemas, compiled.
type graphs struct {
	workflows map[string]*graph
	schemas   map[string]*jsonschema.Schema
}

// graph is a workflow ready to run. A single agent is a graph of one node.
type graph struct {
	definition json.RawMessage // of a workflow; nil for a single agent
	nodes      []*graphNode
}

type graphNode struct {
	plugins.Node
	when, input *vm.Program // nil when empty
}

func (g *graphs) compile(reg *plugins.Registry) error {
	g.workflows = make(map[string]*graph)
	for _, w := range reg.Workflows() {
		compiled, err := compileWorkflow(w)
		if err != nil {
			return err
		}
		g.workflows[w.Name] = compiled
	}
	g.schemas = make(map[string]*jsonschema.Schema)
	for _, t := range reg.Tools() {
		info := t.Info()
		if len(info.Parameters) == 0 {
			continue
		}
		schema, err := compileSchema(info.Parameters)
		if err != nil {
			return fmt.Errorf("tool %s: parameters: %w", info.Name, err)
		}
		g.schemas[info.Name] = schema
	}
	return nil
}

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

func compileWorkflow(w plugins.Workflow) (*graph, error) {
	g := &graph{definition: mustJSON(w)}
	for _, n := range w.Nodes {
		node := &graphNode{Node: n}
		env := expr.Env(scopeTypes(before(w, n.ID)))
		var err error
		if node.when, err = compileExpr(n.When, env, expr.AsBool()); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: when: %w", w.Name, n.ID, err)
		}
		if node.input, err = compileExpr(n.Input, env); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: input: %w", w.Name, n.ID, err)
		}
		g.nodes = append(g.nodes, node)
	}
	return g, nil
}

// before returns the nodes that have come to their end when a node starts: those it needs, and those they need.
func before(w plugins.Workflow, id string) map[string]bool {
	needs := make(map[string][]string, len(w.Nodes))
	for _, n := range w.Nodes {
		needs[n.ID] = n.Needs
	}
	found := make(map[string]bool)
	for next := slices.Clone(needs[id]); len(next) > 0; next = next[1:] {
		if !found[next[0]] {
			found[next[0]] = true
			next = append(next, needs[next[0]]...)
		}
	}
	return found
}

// scopeTypes are the types of what scope holds for a node behind those of ids. Whatever else an expression names is a
// mistake, and found when it is compiled.
func scopeTypes(ids map[string]bool) types.Map {
	nodes := make(types.Map, len(ids))
	for id := range ids {
		nodes[id] = types.Map{"status": types.String, "answer": types.String, "output": types.Any}
	}
	return types.Map{"query": types.String, "state": types.Map{types.Extra: types.Any}, "nodes": nodes}
}

func compileExpr(code string, opts ...expr.Option) (*vm.Program, error) {
	if code == "" {
		return nil, nil
	}
	return expr.Compile(code, opts...)
}

// of returns the graph a run was started with: the registered one unless its definition has changed since.
func (g *graphs) of(run *Run) (*graph, error) {
	if run.Agent != "" {
		return &graph{nodes: []*graphNode{{Node: plugins.Node{ID: run.Agent, Agent: run.Agent}}}}, nil
	}
	if w := g.workflows[run.WorkflowID]; w != nil && bytes.Equal(w.definition, run.Definition) {
		return w, nil
	}
	var w plugins.Workflow
	if err := json.Unmarshal(run.Definition, &w); err != nil {
		return nil, fmt.Errorf("definition of run %s: %w", run.ID, err)
	}
	return compileWorkflow(w)
}

// checkArgs checks a call's arguments against its tool's schema. Its error is for the caller's eyes.
func (g *graphs) checkArgs(tool string, args json.RawMessage) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return fmt.Errorf("the arguments are not JSON")
	}
	if _, ok := v.(map[string]any); !ok {
		return fmt.Errorf("the arguments are not an object")
	}
	schema := g.schemas[tool]
	if schema == nil {
		return nil
	}
	if err := schema.Validate(v); err != nil {
		return fmt.Errorf("the arguments do not fit the tool's parameters: %s", lastLine(err.Error()))
	}
	return nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimPrefix(strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:]), "- ")
}

// decision is what the graph says of a node whose needs have ended.
type decision uint8

const (
	decideRun decision = iota
	decideSkip
)

// decide says whether a node whose needs have ended runs.
func (n *graphNode) decide(env func() map[string]any, nodes map[string]*Node) (decision, error) {
	skipped := 0
	for _, id := range n.Needs {
		if nodes[id].Status == Skipped {
			skipped++
		}
	}
	if len(n.Needs) > 0 && skipped == len(n.Needs) {
		return decideSkip, nil
	}
	if n.when == nil {
		return decideRun, nil
	}
	yes, err := expr.Run(n.when, env())
	if err != nil {
		return 0, &plugins.Error{Code: "bad_condition", Message: fmt.Sprintf("Node %s: the condition failed: %s", n.ID, firstLine(err))}
	}
	if yes.(bool) {
		return decideRun, nil
	}
	return decideSkip, nil
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// scope is what expressions see.
func scope(query string, state json.RawMessage, nodes map[string]*Node) map[string]any {
	var st any
	if json.Unmarshal(state, &st) != nil || st == nil {
		st = map[string]any{}
	}
	seen := make(map[string]any, len(nodes))
	for id, n := range nodes {
		if n.Status != Completed && n.Status != Skipped {
			continue
		}
		var out any
		_ = json.Unmarshal(n.Output, &out)
		seen[id] = map[string]any{"status": string(n.Status), "answer": answerOf(n.Output), "output": out}
	}
	return map[string]any{"query": query, "state": st, "nodes": seen}
}

// answerOf is the text a node's output amounts to: a worker's answer or a tool's summary.
func answerOf(output json.RawMessage) string {
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

// query is what a node is asked: its mapping's value, or the run's query and the needed nodes' answers. A tool is asked
// nothing without a mapping.
func (n *graphNode) query(run string, env func() map[string]any, nodes map[string]*Node) (string, error) {
	if n.input == nil {
		if n.Tool != "" {
			return "{}", nil
		}
		parts := []string{run}
		for _, id := range n.Needs {
			if a := answerOf(nodes[id].Output); a != "" {
				parts = append(parts, a)
			}
		}
		return strings.Join(parts, "\n\n"), nil
	}
	v, err := expr.Run(n.input, env())
	if err != nil {
		return "", &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("Node %s: the input mapping failed: %s", n.ID, firstLine(err))}
	}
	if s, ok := v.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", &plugins.Error{Code: "bad_input", Message: fmt.Sprintf("Node %s: the input mapping gave no JSON value", n.ID)}
	}
	return string(b), nil
}

// outputText is what a step's row shows of its output.
func outputText(out agui.WorkerOutput) string { return clip(out.Answer, 64<<10) }

// clip cuts s to at most n bytes, at a rune's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
