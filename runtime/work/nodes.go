package work

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
)

// nodes is the progress of a run's generation in its graph: the rows of its nodes and steps. The run's mutex guards it.
type nodes struct {
	graph   *graph.Graph
	rows    map[string]*data.Node
	steps   map[string]*data.Step // by node, the latest
	count   int                   // steps so far, over all generations
	started map[string]bool       // nodes that this process has started
}

func newNodes(g *graph.Graph) nodes {
	return nodes{graph: g, rows: make(map[string]*data.Node), steps: make(map[string]*data.Step), started: make(map[string]bool)}
}

// reset makes the rows of a new generation and returns the rows to write. The first row of a lone node is written with its
// step. kept are nodes that count as completed; those that the graph does not have are ignored.
func (ns *nodes) reset(run *data.Run, kept []Kept) (rows []data.Row) {
	known := make(map[string]*data.Node, len(kept))
	for i := range kept {
		node, st := kept[i].Node, kept[i].Step
		if !slices.ContainsFunc(ns.graph.Nodes, func(n *graph.Node) bool { return n.ID == node.NodeID }) {
			continue
		}
		ns.count++
		node.RunKey, st.RunKey, st.Number, st.ID, st.Generation = run.Key, run.Key, ns.count, data.NewID(), run.Generation
		known[node.NodeID], ns.steps[node.NodeID] = &node, &st
		row := st
		rows = append(rows, &row)
	}
	for _, n := range ns.graph.Nodes {
		node := cmp.Or(known[n.ID], &data.Node{RunKey: run.Key, NodeID: n.ID, Status: data.Pending})
		ns.rows[n.ID] = node
		if len(ns.graph.Nodes) > 1 || run.Generation > 1 {
			row := *node
			rows = append(rows, &row)
		}
	}
	return rows
}

// load reads the rows.
func (ns *nodes) load(ctx context.Context, r data.Reader, run *data.Run) error {
	rows, err := r.Nodes(ctx, run.Key)
	if err != nil {
		return err
	}
	for i := range rows {
		ns.rows[rows[i].NodeID] = &rows[i]
	}
	for _, n := range ns.graph.Nodes {
		if ns.rows[n.ID] == nil {
			ns.rows[n.ID] = &data.Node{RunKey: run.Key, NodeID: n.ID, Status: data.Pending}
		}
	}
	for {
		steps, err := r.Steps(ctx, run.Project, run.Key, ns.count, page)
		if err != nil {
			return err
		}
		for i := range steps.Rows {
			s := &steps.Rows[i]
			if ns.count = s.Number; s.Generation == run.Generation {
				ns.steps[s.NodeID] = s
			}
		}
		if !steps.More {
			return nil
		}
	}
}

// scene is what expressions of nodes are evaluated on, beside a run that goes on.
type scene struct {
	query string
	state json.RawMessage
	rows  map[string]*data.Node
}

// scope returns the variables of expressions.
func (s *scene) scope() map[string]any { return graph.Scope(s.query, s.state, s.rows) }

// due returns the nodes that can start or be skipped now. It fails when a node has failed, just before a crash.
func (ns *nodes) due() (list []*graph.Node, err error) {
	for _, n := range ns.graph.Nodes {
		row := ns.rows[n.ID]
		if row.Status == data.Failed {
			return nil, &plugins.Error{Code: row.Error.Code, Message: row.Error.Message}
		}
		if !ns.started[n.ID] && !row.Status.Final() && row.Status != data.Waiting && n.NeedsMet(ns.rows) {
			list = append(list, n)
		}
	}
	return list, nil
}

// skip returns the row of a node that is skipped.
func (ns *nodes) skip(n *graph.Node) data.Row {
	now := time.Now()
	row := ns.rows[n.ID]
	row.Status, row.CompletedAt = data.Skipped, &now
	written := *row
	return &written
}

// begin makes the step of a node's next execution. The step counts once it is in steps.
func (ns *nodes) begin(n *graph.Node, run *data.Run, query string) (*data.Step, *data.Node) {
	now := time.Now()
	ns.count++
	st := &data.Step{
		RunKey: run.Key, Number: ns.count, ID: data.NewID(), Generation: run.Generation, NodeID: n.ID,
		Name: n.ID, Execution: 1, Status: data.Running, Input: data.Plain(query), StartedAt: now,
	}
	if last := ns.steps[n.ID]; last != nil {
		st.Execution = last.Execution + 1
	}
	node := ns.rows[n.ID]
	node.Status, node.Error, node.CompletedAt, node.Progress = data.Running, nil, nil, 0
	if node.StartedAt == nil {
		node.StartedAt = &now
	}
	return st, node
}

// resume sets the waiting nodes that have something to do to running, and returns their steps. A node stays as it is while it has open
// questions and no answer, of its own or to a question of the run.
func (ns *nodes) resume(all []data.Interrupt) (steps []*data.Step) {
	open, answered := make(map[int]bool), make(map[int]bool)
	for i := range all {
		switch all[i].Status {
		case data.InterruptOpen:
			open[all[i].Step] = true
		case data.InterruptAnswered:
			answered[all[i].Step] = true
		}
	}
	for _, st := range ns.steps {
		if st.Status == data.Waiting && (!open[st.Number] || answered[st.Number] || answered[0]) {
			st.Status, ns.rows[st.NodeID].Status = data.Running, data.Running
			steps = append(steps, st)
		}
	}
	return steps
}

// Limits of the latest progress messages in a node's row.
const (
	nodeMessages     = 50
	nodeMessageBytes = 4 << 10
)

// progress records a worker's progress and returns the node's row, or nil when there is none.
func (ns *nodes) progress(id string, value json.RawMessage) data.Row {
	var p struct {
		Progress float64 `json:"progress"`
		Message  string  `json:"message"`
	}
	n := ns.rows[id]
	if n == nil || json.Unmarshal(value, &p) != nil {
		return nil
	}
	n.Progress = min(max(p.Progress, 0), 1)
	if p.Message != "" {
		n.Messages = append(slices.Clone(n.Messages[max(0, len(n.Messages)-nodeMessages+1):]), data.Clip(p.Message, nodeMessageBytes))
	}
	row := *n
	return &row
}

// settle sets steps and nodes that have not ended to status and returns their rows. When a node has failed the run, the
// others were only stopped.
func (ns *nodes) settle(status data.Status, e *agui.OutputError) (rows []data.Row) {
	now := time.Now()
	pending := status
	if status == data.Failed {
		pending = data.Skipped
	}
	if status == data.Failed && ns.has(data.Failed) {
		status, e = data.Cancelled, nil
	}
	for _, st := range ns.steps {
		if st.Status.Final() {
			continue
		}
		st.Status, st.Error = status, e
		if status.Final() {
			st.CompletedAt = &now
		}
		row := *st
		rows = append(rows, &row)
	}
	for _, n := range ns.rows {
		if n.Status.Final() || n.Status == data.Pending && status == data.Waiting {
			continue
		}
		if n.Status == data.Pending {
			n.Status = pending
		} else {
			n.Status, n.Error = status, e
		}
		if n.Status.Final() {
			n.CompletedAt = &now
		}
		row := *n
		rows = append(rows, &row)
	}
	return rows
}

// has reports whether a node has a status.
func (ns *nodes) has(status data.Status) bool {
	for _, n := range ns.rows {
		if n.Status == status {
			return true
		}
	}
	return false
}

// step returns the latest step of that number, or nil when its node has executed again since.
func (ns *nodes) step(number int) *data.Step {
	for _, st := range ns.steps {
		if st.Number == number {
			return st
		}
	}
	return nil
}
