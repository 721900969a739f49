package declared

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/batonrun/baton/config/document"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/graph"
)

// workflow checks a workflow and compiles it, if its graph is sound.
func (c *checker) workflow(at, name string, w *Workflow) {
	if len(w.Nodes) == 0 {
		if !c.r.wrong(at, at+".nodes") {
			c.r.errorf(at, "has no nodes")
		}
		return
	}
	c.projects(at, w.Projects)
	ids := inOrder(c.r, at+".nodes", w.Nodes)
	flow := plugins.Workflow{Name: name, Description: w.Description, Projects: w.Projects}
	sound := true
	for _, id := range ids {
		n, before := w.Nodes[id], len(c.r.errs)
		p := at + ".nodes." + id
		c.node(p, n, ids)
		c.input(p+".input", n)
		c.approver(p+".approval", n.Approval.Who())
		c.approver(p+".ask", n.Ask.Who())
		c.mapOf(p+".map", n)
		sound = sound && len(c.r.errs) == before
		flow.Nodes = append(flow.Nodes, plugins.Node{
			ID: id, Agent: n.Agent, Tool: n.Tool, Needs: n.Needs, When: string(n.When), Input: n.Input.expression(), Map: n.Map.plugins(),
			Timeout: n.Timeout, Retry: n.Retry.plugins(), ContinueOnError: n.OnError == "continue", Repeat: n.Repeat.plugins(), Wait: n.Wait.plugins(), Approval: n.Approval != nil, Ask: n.Ask.plugins(), Approver: cmp.Or(n.Approval.Who(), n.Ask.Who()).Plugins(),
		})
	}
	for _, id := range ids {
		p := at + ".nodes." + id
		inNeeds := func(e *Error) bool { return strings.HasPrefix(e.Path, p+".needs") }
		if !slices.ContainsFunc(c.r.errs, inNeeds) { // expressions may name the needs
			c.expressions(p, graph.ScopeOf(flow, id, c.output), w.Nodes[id], ids)
		}
	}
	if sound && c.acyclic(at, w, ids) {
		if err := flow.Validate(); err != nil {
			c.r.errorf(at, "%s", err)
			return
		}
		c.workflows[name] = flow
	}
}

// wait checks the wait of a node.
func (c *checker) wait(at string, n *Node) {
	w := n.Wait
	c.oneOf(at, map[string]bool{"event": w.Event != "", "for": w.For > 0, "until": w.Until != ""})
	switch {
	case w.Event != "" && !plugins.IsEventName(w.Event):
		c.r.errorf(at+".event", "%s", plugins.EventNames)
	case w.Event != "" && (n.Agent != "" || n.Tool != "" || n.Ask != nil):
		c.r.errorf(at+".event", "a node that waits for an event has nothing else to do: make it one that others need")
	case w.Event == "" && w.Within != 0:
		c.r.errorf(at+".within", "is for an event")
	case w.Within > plugins.LongestWait:
		c.r.errorf(at+".within", "want at most 365d")
	}
}

// mapOf checks a node's map, but for its expressions.
func (c *checker) mapOf(at string, n *Node) {
	m := n.Map
	switch {
	case m == nil:
	case n.Repeat != nil || n.Wait != nil:
		c.r.errorf(at, "a node with a map has no repeat and no wait: put the wait into a node that it needs")
	case n.OnError == "continue" && m.Items != plugins.CollectErrors && m.Items != plugins.SkipErrors:
		c.r.errorf(at, "on_error: continue needs items: collect or skip")
	case m.Over == "" && !c.r.wrong(at, at+".over"):
		c.r.errorf(at, "over is missing: the list")
	case m.Max < 0 || m.Max > plugins.MaxItems:
		c.r.errorf(at+".max", "want 1 to %d", plugins.MaxItems)
	}
}

// approver checks who may give an approval.
func (c *checker) approver(at string, a *Approver) {
	if a != nil && a.Not != "" && (a.By == "" || a.By == plugins.ByUser) {
		c.r.errorf(at+".not", "a user approves only in their own runs: not: requester needs by: operator or admin")
	}
}

func (c *checker) node(at string, n *Node, ids []string) {
	id := at[strings.LastIndexByte(at, '.')+1:]
	if err := graph.CheckName(id); err != nil {
		c.r.errorf(at, "%s", err)
	}
	if n.Repeat != nil && n.Repeat.Until == "" && !c.r.wrong(at+".repeat", at+".repeat.until") {
		c.r.errorf(at+".repeat", "until is missing")
	}
	if n.Repeat != nil && n.Repeat.Max > plugins.MaxRounds {
		c.r.errorf(at+".repeat.max", "want at most %d rounds", plugins.MaxRounds)
	}
	if n.Wait != nil {
		c.wait(at+".wait", n)
	}
	if n.Ask != nil {
		c.ask(at+".ask", n.Ask)
	}
	if n.Agent == "" && n.Tool == "" && (n.Wait != nil || n.Ask != nil) {
		for _, key := range []string{"input", "map", "retry", "repeat", "timeout", "approval"} {
			if p := at + "." + key; c.r.at[p] != nil {
				c.r.errorf(p, "is for a node with an agent or a tool")
			}
		}
	} else {
		c.oneOf(at, map[string]bool{"agent": n.Agent != "", "ask": n.Ask != nil, "tool": n.Tool != "", "wait": n.Wait != nil && n.Agent == "" && n.Tool == ""})
	}
	if n.Agent != "" && !c.agents[n.Agent] {
		c.r.errorf(at+".agent", "there is no agent %q%s", n.Agent, document.Hint(n.Agent, slices.Sorted(maps.Keys(c.agents))))
	}
	if n.Tool != "" && !c.tools[n.Tool] {
		c.nodeTool(at+".tool", n.Tool)
	}
	for i, need := range n.Needs {
		p := fmt.Sprintf("%s.needs[%d]", at, i)
		switch {
		case !slices.Contains(ids, need):
			c.r.errorf(p, "there is no node %q%s", need, document.Hint(need, ids))
		case slices.Contains(n.Needs[:i], need):
			c.r.errorf(p, "%q is duplicated", need)
		}
	}
}

// ask checks a question.
func (c *checker) ask(at string, a *Ask) {
	if a.Message == "" && !c.r.wrong(at, at+".message") {
		c.r.errorf(at, "message is missing")
	}
	if e := a.Else; e != nil {
		c.oneOf(at+".else", map[string]bool{"fail": e.Fail, "skip": e.Skip, "output": e.Output != ""})
	}
}

func (c *checker) nodeTool(at, tool string) {
	server, rest, ok := strings.Cut(tool, ".")
	if ok && c.f.MCP[server] != nil && !strings.ContainsAny(rest, "*?[") {
		c.serverTool(at, server, rest)
		return
	} else if ok && c.boxes[server] {
		return
	}
	names := slices.Sorted(maps.Keys(c.tools))
	for server, s := range c.f.MCP {
		for _, t := range s.Allow {
			names = append(names, server+"."+t)
		}
	}
	c.r.errorf(at, "there is no tool %q%s", tool, document.Hint(tool, names))
}

// acyclic repeatedly removes nodes whose needs are removed; the remaining ones form a cycle.
func (c *checker) acyclic(at string, w *Workflow, ids []string) bool {
	left := slices.Clone(ids)
	for {
		before := len(left)
		left = slices.DeleteFunc(left, func(id string) bool {
			return !slices.ContainsFunc(w.Nodes[id].Needs, func(need string) bool { return slices.Contains(left, need) })
		})
		if len(left) == before {
			break
		}
	}
	for _, id := range left {
		if way := w.wayBack(id); way != nil {
			c.r.errorf(at+".nodes."+id+".needs", "a cycle: %s", strings.Join(way, " needs "))
			return false
		}
	}
	return true
}

// wayBack returns the shortest path over needs from a node to itself, or nil.
func (w *Workflow) wayBack(id string) []string {
	seen := map[string]bool{}
	for ways := [][]string{{id}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		for _, need := range w.Nodes[way[len(way)-1]].Needs {
			next := append(slices.Clone(way), need)
			if need == id {
				return next
			}
			if !seen[need] {
				seen[need] = true
				ways = append(ways, next)
			}
		}
	}
	return nil
}

// expressions checks a node's expressions against the names that they can use.
func (c *checker) expressions(at string, names graph.Names, n *Node, ids []string) {
	if a := n.Approval.Who(); a != nil && a.Message != "" {
		if err := names.CheckInput(string(a.Message)); err != nil {
			c.r.errorf(at+".approval.message", "%s", err)
		}
	}
	if n.Wait != nil {
		if err := names.CheckWait(string(n.Wait.Until)); err != nil {
			c.r.errorf(at+".wait.until", "%s", expressionError(err, ids))
		}
	}
	if n.Repeat != nil {
		if err := names.CheckUntil(string(n.Repeat.Until)); err != nil {
			c.r.errorf(at+".repeat.until", "%s", expressionError(err, ids))
		}
	}
	if a := n.Ask; a != nil {
		if err := names.CheckInput(string(a.Message)); err != nil {
			c.r.errorf(at+".ask.message", "%s", expressionError(err, ids))
		}
		if a.Else != nil {
			if err := names.CheckInput(string(a.Else.Output)); err != nil {
				c.r.errorf(at+".ask.else.output", "%s", expressionError(err, ids))
			}
		}
	}
	if err := names.CheckWhen(string(n.When)); err != nil {
		c.r.errorf(at+".when", "%s", expressionError(err, ids))
	}
	if n.Map != nil {
		if n.Map.Over == "" { // see mapOf
			return
		}
		var err error
		if _, names, err = names.Over(n.Map.plugins()); err != nil {
			c.r.errorf(at+".map.over", "%s", expressionError(err, ids))
			return
		}
		if err := names.CheckInput(string(n.Map.Key)); err != nil {
			c.r.errorf(at+".map.key", "%s", expressionError(err, ids))
		}
	}
	if n.Input == nil {
		return
	}
	for _, p := range slices.Sorted(maps.Keys(n.Input.members)) {
		if err := names.CheckInput(n.Input.members[p]); err != nil {
			c.r.errorf(p, "%s", expressionError(err, ids))
		}
	}
}

// expressionError returns the first line of an expression's error, which has the message and position.
func expressionError(err error, ids []string) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if rest, ok := strings.CutPrefix(text, "unknown name "); ok {
		if name, _, _ := strings.Cut(rest, " "); slices.Contains(ids, name) {
			return text + ": name it in needs"
		}
	}
	if strings.Contains(text, `Operator("=")`) {
		return text + ": compare with =="
	}
	return text
}

// input checks the names of a tool's arguments.
func (c *checker) input(at string, n *Node) {
	var schema struct {
		Properties           map[string]any
		Required             []string
		AdditionalProperties any
	}
	if n.Input == nil || n.Input.names == nil || c.arguments[n.Tool] == nil || json.Unmarshal(c.arguments[n.Tool], &schema) != nil {
		return
	}
	known := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range n.Input.names {
		if schema.AdditionalProperties == false && !slices.Contains(known, name) {
			c.r.errorf(join(at, name), "%s has no such argument%s", n.Tool, document.Hint(name, known))
		}
	}
	for _, name := range schema.Required {
		if !slices.Contains(n.Input.names, name) {
			c.r.errorf(at, "the argument %s of %s is missing", name, n.Tool)
		}
	}
}

// input decodes an expression, or a structure of expressions, as one expression.
func (r *reader) input(path string, n *yaml.Node) *Input {
	in := &Input{members: map[string]string{}}
	in.code = r.expression(path, n, in.members)
	if n.Kind == yaml.MappingNode {
		in.names = []string{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			in.names = append(in.names, n.Content[i].Value)
		}
	}
	return in
}

func (r *reader) expression(path string, n *yaml.Node, members map[string]string) string {
	if n = r.visit(path, n); n == nil {
		return "nil"
	}
	switch n.Kind {
	case yaml.MappingNode:
		var parts []string
		r.pairs(path, n, func(name, at string, val *yaml.Node) {
			parts = append(parts, strconv.Quote(name)+": "+r.expression(at, val, members))
		})
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		var parts []string
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.at[at] = item
			parts = append(parts, r.expression(at, item, members))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.Tag == "!!null" {
		return "nil"
	}
	code := r.scalar(path, n)
	members[path] = code
	return "(" + code + "\n)" // the line break ends a trailing comment
}

func (in *Input) expression() string {
	if in == nil {
		return ""
	}
	return in.code
}
