package plugins

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// Node is one agent or tool of a Workflow, a question, or a wait.
//
// When and Input are expressions of github.com/expr-lang/expr, compiled when the server starts, over
//
//	now()            the time, of one evaluation
//	query            the run's last user message
//	state            the thread's state, an object
//	nodes.<id>       the result of a needed node, or of one that it needs in turn: {status, answer, output}, status
//	                 "COMPLETED", "FAILED" or "SKIPPED"
//	<id>             the same with the status of the output: "success", "partial_success", "failed", "skipped" or
//	                 "expired"
//	<id>.round       of a node with Repeat: how many rounds it had
//	<id>.by          of a node with Ask: the user of the answer, empty if it is not known
//	<id>.error       of a node with ContinueOnError: {code, message}, both empty unless it has failed
//
// Map is for a node with a list.
//
// Any other name in an expression is an error at the server's start; members of state and outputs are not checked. ${NAME}
// is the value of an environment variable, which the definition does not show.
//
// Integers are exact. An evaluation that makes more than 16 MiB of data or takes more than 10 million steps fails.
type Node struct {
	ID    string   // unique in the workflow, a Go identifier ([A-Za-z_][A-Za-z0-9_]*), so that expressions can name it
	Agent string   // the agent to run, or
	Tool  string   // the tool to call with the result of Input
	Needs []string // nodes that must have ended

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

	// ContinueOnError lets the run go on when the node has failed: nodes that need it run. The failures budget_exceeded, crash_loop,
	// replay_mismatch and too_many_records, limits of the run, and an error in When fail the run all the same.
	ContinueOnError bool `json:",omitempty"`

	// Repeat executes the node in rounds. Wait is waited for before the first one; each has its own input, approval and retries.
	Repeat Repeat `json:",omitzero"`

	// Wait is waited for once, after When and before the approval and the call, whose input was computed before. A node may be a
	// wait alone: its output is nil.
	Wait NodeWait `json:",omitzero"`

	// Approval makes the run wait for a person before the node executes. The person can edit a tool's arguments. A denied
	// node fails with the code denied.
	Approval bool `json:",omitempty"`
	// Ask makes the node a question to a person.
	Ask *Ask `json:",omitempty"`
	// Approver is about the approval, or the answer to Ask, which needs its Message.
	Approver Approver `json:",omitzero"`
}

var nodeID = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (n *Node) validate() error {
	calls := n.Agent != "" || n.Tool != ""
	does := slices.DeleteFunc([]bool{n.Agent != "", n.Tool != "", n.Ask != nil}, func(is bool) bool { return !is })
	switch {
	case !nodeID.MatchString(n.ID):
		return fmt.Errorf("id must match %s", nodeID)
	case len(does) > 1 || len(does) == 0 && n.Wait == NodeWait{}:
		return errors.New("must have one of an agent, a tool and a question, or a wait")
	case n.Ask != nil && n.Approver.Message == "":
		return errors.New("a question needs a message")
	case n.Ask != nil && n.Ask.Skip && n.Ask.Output != "":
		return errors.New("a question has Skip or Output, not both")
	case n.Map != nil && (n.Repeat != Repeat{} || n.Wait != NodeWait{}):
		return errors.New("a node with a map has no repeat and no wait")
	case n.Map != nil && n.ContinueOnError && n.Map.OnError != CollectErrors && n.Map.OnError != SkipErrors:
		return errors.New("a node with a map that continues on errors collects or skips them")
	case !calls && (n.Map != nil || n.Input != "" || n.Timeout != 0 || n.Retry.Retries != 0 || n.Repeat != Repeat{} || n.Approval):
		return errors.New("input, map, timeout, retry, repeat and approval are for a node with an agent or a tool")
	case n.Repeat != Repeat{} && (n.Repeat.Until == "" || n.Repeat.Max < 0 || n.Repeat.Max > MaxRounds):
		return fmt.Errorf("repeat needs Until, and a Max of up to %d", MaxRounds)
	case n.Wait.For < 0 || n.Wait.For > 0 && n.Wait.Until != "":
		return errors.New("must wait for a time above 0, or until one")
	case n.Wait.Event == "" && n.Wait.Within != 0 || n.Wait.Within < 0:
		return errors.New("a wait has Within above 0 for an event")
	case n.Wait.Event != "" && (len(does) > 0 || n.Wait.For != 0 || n.Wait.Until != ""):
		return errors.New("a wait for an event is a node of its own")
	case n.Wait.Event != "" && !IsEventName(n.Wait.Event):
		return errors.New("its event is misnamed: " + EventNames)
	case n.Timeout < 0:
		return errors.New("timeout is negative")
	case n.Retry.Retries < 0 || n.Retry.Initial < 0 || n.Retry.Max < 0:
		return errors.New("retry is negative")
	}
	return errors.Join(n.Map.validate(), n.Approver.Validate())
}

// Ask is the question of a node. Its output is the answer.
type Ask struct {
	Schema json.RawMessage `json:",omitempty"` // JSON Schema of the answer, default any JSON

	// A question that is declined or has expired fails the node with the code unanswered, unless it says otherwise:
	Skip   bool   `json:",omitempty"` // the node is skipped, or
	Output string `json:",omitempty"` // an expression of its output
}

// Repeat is the policy for executing a node again after a success. Until, the node's Input and the message of its approval see the
// node itself, too: with the output of its last round and the number of the present one as round, from 1. In the first round the output
// is nil, and status and answer are empty.
type Repeat struct {
	Until string // an expression: the node is over once it is true
	Max   int    `json:",omitempty"` // rounds, default DefaultRounds; at most MaxRounds. The last one ends the node as a partial_success,
	Fail  bool   `json:",omitempty"` // or else fails it with the code repeat_max
}

// Limits of the rounds of a node.
const (
	DefaultRounds = 10
	MaxRounds     = 100
)

// NodeWait is a wait of a node, as [Run.Sleep], [Run.SleepUntil] and [Run.WaitFor] do it: it has For, Until or Event.
type NodeWait struct {
	For time.Duration `json:",omitempty"`
	// Until is an expression for the end: a time or an RFC 3339 text; a time of day in a zone, such as "09:00 Europe/Berlin", for the
	// next one; or a duration. A time of day that summer time skips is the first one behind it, one that occurs twice the first.
	Until string `json:",omitempty"`
	// Event is the name of an event from outside. The node is a wait alone, whose output is the event's payload, or nil with the status
	// "expired" if none has come within the time Within, default LongestWait.
	Event  string        `json:",omitempty"`
	Within time.Duration `json:",omitempty"`
}

// ParseDuration is [time.ParseDuration] with days of 24 hours before the other units: 2d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(n) * 24 * time.Hour, err
	}
	more, err := time.ParseDuration("+" + rest)
	return time.Duration(n)*24*time.Hour + more, err
}

// Retry is the policy for executing a node again after an error that is retryable, or whose code is in On.
type Retry struct {
	Retries int           // executions after the first one
	Initial time.Duration // delay before the first retry, default 500 ms; it doubles each time
	Max     time.Duration // maximum delay, default 30 s
	On      []string      `json:",omitempty"` // codes: only these errors are retried, and whether or not they are retryable
}
