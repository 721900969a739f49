package plugins

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Workflow is a directed acyclic graph of nodes. A node runs once its needs are met, in parallel with others.
type Workflow struct {
	Name        string
	Description string
	Projects    []string `json:"-"` // as in Info; the workflow is offered only where all its agents and tools are
	Nodes       []Node
}

// Info describes the workflow.
func (w Workflow) Info() Info {
	return Info{Name: w.Name, Description: w.Description, Projects: w.Projects}
}

// Validate checks that node ids are unique, that each node has either an agent or a tool, and that needs exist and are
// acyclic. Registry.Validate checks that the agents and tools exist.
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
				return fmt.Errorf("node %q: needs %q, which does not exist", n.ID, need)
			}
			if slices.Contains(n.Needs[:i], need) {
				return fmt.Errorf("node %q: needs %q twice", n.ID, need)
			}
		}
	}
	return w.checkAcyclic()
}

// checkAcyclic repeatedly removes nodes whose needs are removed; the remaining ones form a cycle.
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
			return fmt.Errorf("node %q: is part of a cycle, or needs one", w.Nodes[left].ID)
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
//	nodes.<id>       the result of a needed node, or of one that it needs in turn: {status, answer, output}, status
//	                 "COMPLETED" or "SKIPPED"
//	<id>             the same with the status of the output: "success", "partial_success" or "skipped"
//
// Map says what a node with a list has in addition.
//
// Any other name in an expression is an error at the server's start; members of state and outputs are not checked. ${NAME}
// is the value of an environment variable, which the definition does not show.
//
// Integers are exact. An evaluation that makes more than 16 MiB of data or takes more than 10 million steps fails.
type Node struct {
	ID    string   // unique in the workflow, a Go identifier ([A-Za-z_][A-Za-z0-9_]*), so that expressions can name it
	Agent string   // the agent to run, or
	Tool  string   // the tool to call with the result of Input
	Needs []string // nodes that must have completed or been skipped

	// When skips the node unless the expression is true; empty means true. A node is also skipped if all its needs were
	// skipped.
	When string
	// Input computes an agent's query (a string, or any other value as JSON) or a tool's arguments (an object). By
	// default an agent gets the run's query joined with the answers of the needed nodes, and a tool gets {}.
	Input string

	// Map executes the node for each item of a list.
	Map *Map `json:",omitempty"`

	Timeout time.Duration // of one execution; 0 means the server's default
	Retry   Retry

	// Approval makes the run wait for a person before the node executes. The person can edit a tool's arguments. A denied
	// node fails with the code denied.
	Approval bool `json:",omitempty"`
	// Approver says who may approve it, and what they see.
	Approver Approver `json:",omitzero"`
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
	case n.Retry.Retries < 0 || n.Retry.Initial < 0 || n.Retry.Max < 0:
		return errors.New("retry is negative")
	}
	return errors.Join(n.Map.validate(), n.Approver.Validate())
}

// Retry is the policy for executing a node again after a retryable error.
type Retry struct {
	Retries int           // executions after the first one
	Initial time.Duration // delay before the first retry, default 500 ms; it doubles each time
	Max     time.Duration // maximum delay, default 30 s
}
