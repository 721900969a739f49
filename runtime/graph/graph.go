// Package graph compiles workflows and tool schemas. It decides when a node runs and which input it gets, and checks
// arguments against a tool's schema. It executes and stores nothing; the caller passes in the nodes' results.
package graph

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/expr-lang/expr/types"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/expression"
)

// Set is a registry's compiled workflows and tool schemas.
type Set struct {
	workflows map[string]*Graph
	schemas   map[string]*Schema // by schema text
}

// Graph is a compiled workflow. A single agent is a graph of one node.
type Graph struct {
	Definition json.RawMessage // of a workflow; nil for a single agent
	Nodes      []*Node
}

// Node is one node of a graph, or of the node's map the whole or an item.
type Node struct {
	plugins.Node
	Item *Item // of the map, nil for the whole

	when, wait, input, until, message, otherwise, over, key *expression.Program // nil if empty
}

// Compile compiles a registry's workflows and tool schemas.
func Compile(reg *host.Registry) (*Set, error) {
	s := &Set{workflows: make(map[string]*Graph), schemas: make(map[string]*Schema)}
	for _, w := range reg.Workflows() {
		compiled, err := compileWorkflow(w, outputsOf(reg))
		if err != nil {
			return nil, err
		}
		s.workflows[w.Name] = compiled
	}
	for _, a := range reg.Agents() {
		if info := a.Info(); info.Approver.Message != "" {
			if err := CheckMessage(info.Approver.Message); err != nil {
				return nil, fmt.Errorf("agent %s: message: %w", info.Name, err)
			}
		}
	}
	for _, t := range reg.Tools() {
		info := t.Info()
		if info.Approver.Message != "" {
			if err := CheckMessage(info.Approver.Message); err != nil {
				return nil, fmt.Errorf("tool %s: message: %w", info.Name, err)
			}
		}
		if _, boxed := reg.Toolbox(info.Name); boxed || len(info.Parameters) == 0 { // the tools of a toolbox change
			continue
		}
		schema, err := compileParameters(info.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %s: parameters: %w", info.Name, err)
		}
		s.schemas[string(info.Parameters)] = schema
	}
	return s, nil
}

// Workflow returns a workflow, nil if the registry has none of that name.
func (s *Set) Workflow(name string) *Graph { return s.workflows[name] }

// Of returns the graph with which a run was started: the registered one unless its definition has changed.
func (s *Set) Of(run *data.Run) (*Graph, error) {
	if run.Agent != "" {
		return &Graph{Nodes: []*Node{{Node: ofAgent(run.Agent)}}}, nil
	}
	if w := s.workflows[run.WorkflowID]; w != nil && bytes.Equal(w.Definition, run.Definition) {
		return w, nil
	}
	w, err := Definition(run)
	if err != nil {
		return nil, err
	}
	return compileWorkflow(w, nil)
}

// Definition returns the workflow with which a run was started. A single agent's is one node of its name.
func Definition(run *data.Run) (w plugins.Workflow, err error) {
	if run.Agent != "" {
		return plugins.Workflow{Name: run.WorkflowID, Nodes: []plugins.Node{ofAgent(run.Agent)}}, nil
	}
	if err := json.Unmarshal(run.Definition, &w); err != nil {
		return w, fmt.Errorf("definition of run %s: %w", run.ID, err)
	}
	return w, nil
}

// ofAgent returns the node of a single agent's run.
func ofAgent(name string) plugins.Node { return plugins.Node{ID: name, Agent: name} }

// Worker returns the name that a node's events carry as their agent.
func (g *Graph) Worker(node string) string {
	for _, n := range g.Nodes {
		if n.ID == node {
			return n.Worker()
		}
	}
	return node
}

// Needed reports whether any node needs the node id.
func (g *Graph) Needed(id string) bool {
	for _, n := range g.Nodes {
		if slices.Contains(n.Needs, id) {
			return true
		}
	}
	return false
}

// Output returns the output of a workflow: that of the last node with one that no other node needs.
func (g *Graph) Output(nodes map[string]*data.Node) (out json.RawMessage) {
	for _, n := range g.Nodes {
		if o := nodes[n.ID].Output; o != nil && !g.Needed(n.ID) {
			out = o
		}
	}
	return out
}

// CheckName returns an error for a node with an id that has another meaning in expressions.
func CheckName(id string) error {
	if id == "query" || id == "state" || id == "nodes" || expression.IsReserved(id) {
		return fmt.Errorf("%s is a word of expressions: choose another id", id)
	}
	return nil
}

// Outputs returns the schema of the output of a node's agent or tool, nil if it is not known.
type Outputs func(n *plugins.Node) json.RawMessage

func outputsOf(reg *host.Registry) Outputs {
	return func(n *plugins.Node) json.RawMessage {
		if agent, ok := reg.Agent(n.Agent); ok {
			return agent.Info().Output
		}
		if _, boxed := reg.Toolbox(n.Tool); boxed { // its tools change
			return nil
		}
		if tool, ok := reg.Tool(n.Tool); ok {
			return tool.Info().Output
		}
		return nil
	}
}

func compileWorkflow(w plugins.Workflow, outputs Outputs) (*Graph, error) {
	definition, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("workflow %s: %w", w.Name, err)
	}
	g := &Graph{Definition: definition}
	for _, n := range w.Nodes {
		node := &Node{Node: n}
		if err := CheckName(n.ID); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: %w", w.Name, n.ID, err)
		}
		scope := ScopeOf(w, n.ID, outputs)
		if node.when, err = scope.compile(n.When, true); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: when: %w", w.Name, n.ID, err)
		}
		if node.wait, err = scope.compile(n.Wait.Until, false); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: wait: %w", w.Name, n.ID, err)
		}
		scope.all = scope.own
		if node.until, err = scope.compile(n.Repeat.Until, true); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: repeat: %w", w.Name, n.ID, err)
		}
		inner := scope
		if n.Map != nil {
			if node.over, inner, err = scope.Over(n.Map); err != nil {
				return nil, fmt.Errorf("workflow %s, node %s: map: over: %w", w.Name, n.ID, err)
			}
			if node.key, err = inner.compile(n.Map.Key, false); err != nil {
				return nil, fmt.Errorf("workflow %s, node %s: map: key: %w", w.Name, n.ID, err)
			}
		}
		if node.input, err = inner.compile(n.Input, false); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: input: %w", w.Name, n.ID, err)
		}
		if n.Ask != nil {
			if err := node.compileAsk(scope); err != nil {
				return nil, fmt.Errorf("workflow %s, node %s: ask: %w", w.Name, n.ID, err)
			}
		}
		if node.message, err = scope.compile(n.Approver.Message, false); err != nil {
			return nil, fmt.Errorf("workflow %s, node %s: message: %w", w.Name, n.ID, err)
		}
		g.Nodes = append(g.Nodes, node)
	}
	return g, nil
}

// Names are the names available to a node's expressions.
type Names struct {
	all types.Map
	own types.Map // likewise, of those that see the node itself, if it is repeated
}

// ScopeOf returns the names available to the expressions of a workflow's node. outputs can be nil.
func ScopeOf(w plugins.Workflow, node string, outputs Outputs) Names {
	typed, found := make(map[string]types.Map), Before(w, node)
	for i := range w.Nodes {
		if n := &w.Nodes[i]; found[n.ID] {
			typed[n.ID] = seenType(n, outputs)
		}
	}
	names := Names{all: scopeTypes(typed)}
	if i := slices.IndexFunc(w.Nodes, func(n plugins.Node) bool { return n.ID == node && n.Repeat.Until != "" }); i >= 0 {
		typed[node] = seenType(&w.Nodes[i], outputs)
	}
	names.own = scopeTypes(typed)
	return names
}

// seenType returns the type of a node in expressions.
func seenType(n *plugins.Node, outputs Outputs) types.Map {
	seen := types.Map{"status": types.String, "answer": types.String, "output": types.Any}
	switch {
	case n.Ask != nil:
		seen["output"], seen["by"] = typeOf(n.Ask.Schema), types.String
	case outputs != nil:
		seen["output"] = typeOf(outputs(n))
	}
	if n.Map != nil {
		seen["items"] = types.Array(seen["output"])
		seen["output"], seen["errors"] = seen["items"], types.Array(types.Map{
			"key": types.String, "index": types.Int, "code": types.String, "message": types.String,
		})
	}
	if n.Repeat.Until != "" {
		seen["round"] = types.Int
	}
	if n.ContinueOnError {
		seen["error"] = types.Map{"code": types.String, "message": types.String}
	}
	return seen
}

// CheckWhen checks the condition of a node.
func (n Names) CheckWhen(code string) error {
	_, err := n.compile(code, true)
	return err
}

// CheckWait checks the end of a wait.
func (n Names) CheckWait(code string) error {
	_, err := n.compile(code, false)
	return err
}

// CheckUntil checks the condition that ends the rounds of a node.
func (n Names) CheckUntil(code string) error { return Names{all: n.own}.CheckWhen(code) }

// CheckInput checks an input mapping, or a message.
func (n Names) CheckInput(code string) error { return Names{all: n.own}.CheckWait(code) }

func (n Names) compile(code string, condition bool) (*expression.Program, error) {
	if code == "" {
		return nil, nil
	}
	return expression.Compile(code, n.all, condition, os.LookupEnv)
}

// Before returns the nodes that have ended when a node starts: its needs and theirs, recursively.
func Before(w plugins.Workflow, id string) map[string]bool {
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

// scopeTypes returns the types of Scope where nodes of the given types are seen. Compiling an expression with another name fails.
func scopeTypes(all map[string]types.Map) types.Map {
	nodes, scope := make(types.Map, len(all)), make(types.Map, len(all)+3)
	for id, seen := range all {
		nodes[id], scope[id] = seen, seen
	}
	scope["query"], scope["state"], scope["nodes"] = types.String, types.Map{types.Extra: types.Any}, nodes
	return scope
}

// typeOf returns the type of values of a schema, as far as expressions need it: the names of members. A schema that leaves its
// members open, or composes them of others, has any.
func typeOf(schema json.RawMessage) types.Type {
	var s map[string]json.RawMessage
	if json.Unmarshal(schema, &s) != nil {
		return types.Any
	}
	var typ string
	var properties map[string]json.RawMessage
	if json.Unmarshal(s["type"], &typ) == nil && typ == "array" {
		return types.Array(typeOf(s["items"]))
	}
	if typ != "object" || json.Unmarshal(s["properties"], &properties) != nil {
		return types.Any
	}
	open := s["additionalProperties"] != nil && string(s["additionalProperties"]) != "false"
	for _, other := range []string{"patternProperties", "allOf", "anyOf", "oneOf", "if", "$ref"} {
		open = open || s[other] != nil
	}
	if open {
		return types.Any
	}
	members := make(types.Map, len(properties))
	for name, property := range properties {
		members[name] = typeOf(property)
	}
	return members
}
