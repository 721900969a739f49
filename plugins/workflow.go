package plugins

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Workflow is a directed acyclic graph of nodes. Nodes whose needs are met run in parallel.
type Workflow struct {
	Name        string
	Description string
	Projects    []string `json:"-"` // as in Info; where one of its agents or tools is not offered, the workflow is not either
	Nodes       []Node
}

// Info describes the workflow.
func (w Workflow) Info() Info {
	return Info{Name: w.Name, Description: w.Description, Projects: w.Projects}
}

// Validate checks the graph: that its nodes have ids of their own, each an agent or a tool, and needs that
// exist and do not lead back to it. Whether agents and tools exist is for Registry.Validate to say.
func (w Workflow) Validate() error {
	if len(w.Nodes) == 0 {
		return errors.New("has no nodes")
	}
	nodes := make(map[string]*Node, len(w.Nodes))
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if err := n.validate(); err != nil {
			return fmt.Errorf("node %q: %w", n.ID, err)
		}
		if nodes[n.ID] != nil {
			return fmt.Errorf("node %q: the id is taken", n.ID)
		}
		nodes[n.ID] = n
	}
	for _, n := range w.Nodes {
		for i, need := range n.Needs {
			if nodes[need] == nil {
				return fmt.Errorf("node %q: needs %q, which is not there", n.ID, need)
			}
			if slices.Contains(n.Needs[:i], need) {
				return fmt.Errorf("node %q: needs %q twice", n.ID, need)
			}
		}
	}
	return w.checkAcyclic()
}

// checkAcyclic takes away the nodes whose needs are all gone until none is left; a cycle stays.
func (w Workflow) checkAcyclic() error {
	gone := map[string]bool{}
	for len(gone) < len(w.Nodes) {
		before := len(gone)
		for _, n := range w.Nodes {
			if !slices.ContainsFunc(n.Needs, func(need string) bool { return !gone[need] }) {
				gone[n.ID] = true
			}
		}
		if len(gone) == before {
			left := slices.IndexFunc(w.Nodes, func(n Node) bool { return !gone[n.ID] })
			return fmt.Errorf("node %q: is in, or needs, a cycle", w.Nodes[left].ID)
		}
	}
	return nil
}

// Node is one agent or tool of a Workflow.
//
// When and Input are expressions of github.com/expr-lang/expr, compiled when the server starts, over
//
//	query            the run's last user message
//	state            the thread's state, an object
//	nodes.<id>       what a needed node, or one that it needs in turn, gave: {status, answer, output}, status
//	                 "COMPLETED" or "SKIPPED"
//	<id>             the same with the status of the output: "success", "partial_success" or "skipped"
//
// The server does not start with an expression that names anything else; what state and an output hold is free.
type Node struct {
	ID    string   // unique in the workflow, a Go identifier ([A-Za-z_][A-Za-z0-9_]*), so that expressions can name it
	Agent string   // the agent to run, or
	Tool  string   // the tool to call with what Input gives
	Needs []string // nodes that must have completed or been skipped

	// When skips the node unless the expression is true; empty means true. A node whose needs were all
	// skipped is skipped too.
	When string
	// Input gives an agent its query (a string as it is, anything else as JSON) and a tool its arguments
	// (an object). Empty means the run's query joined with the answers of the needed nodes, and {}.
	Input string

	Timeout time.Duration // of one execution, 0 means the server's default
	Retry   Retry

	// Approval makes the run wait for a person before the node is executed, who may edit a tool's arguments. A node
	// that is refused fails with the code denied.
	Approval bool `json:",omitempty"`
}

var nodeID = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (n *Node) validate() error {
	switch {
	case !nodeID.MatchString(n.ID):
		return fmt.Errorf("id must match %s", nodeID)
	case (n.Agent == "") == (n.Tool == ""):
		return errors.New("must have an agent or a tool, and not both")
	case n.Timeout < 0:
		return errors.New("timeout is negative")
	case n.Retry.Attempts < 0 || n.Retry.Initial < 0 || n.Retry.Max < 0:
		return errors.New("retry is negative")
	}
	return nil
}

// Retry says how often and when a node that failed with a retryable error is executed again.
type Retry struct {
	Attempts int           // executions in all, 0 and 1 mean one
	Initial  time.Duration // before the second execution, default 500 ms
	Max      time.Duration // between two executions at most, default 30 s; the pause doubles each time
}
