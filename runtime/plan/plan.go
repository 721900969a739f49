// Package plan is how far a run's generation has come in its graph: the rows of its nodes and steps. Package graph compiles graphs and
// says which nodes run; here nothing is executed. It has no locks: the mutex of a live run guards its Plan.
package plan

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

// Plan is the progress of a run's generation in its graph. The rows that its methods return are copies, to be written.
type Plan struct {
	Graph   *graph.Graph
	nodes   map[string]*data.Node
	maps    map[string]*mapped    // by node, once it has begun
	steps   map[string]*data.Step // by name, the latest
	count   int                   // steps so far, over all generations
	started map[string]bool       // steps that this process has started, by name

	Now func() time.Time // the time that expressions have
}

// New returns the plan of a graph, without rows.
func New(g *graph.Graph) *Plan {
	return &Plan{
		Graph: g, nodes: make(map[string]*data.Node), maps: make(map[string]*mapped), steps: make(map[string]*data.Step), started: make(map[string]bool), Now: time.Now,
	}
}

// Kept is a node that an earlier run has completed, with the steps that did: of a map those of its items. A rerun has them as its own.
type Kept struct {
	Node  data.Node
	Steps []data.Step
}

// Reset makes the rows of a new generation behind so many steps of earlier ones. The first row of a lone node is written with its
// step. kept are nodes that count as completed; those that the graph does not have are ignored.
func (p *Plan) Reset(run *data.Run, before int, kept []Kept) (rows []data.Row) {
	p.count = before
	known := make(map[string]*data.Node, len(kept))
	for i := range kept {
		node := kept[i].Node
		if !slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool { return n.ID == node.NodeID }) {
			continue
		}
		node.RunKey, known[node.NodeID] = run.Key, &node
		for _, st := range kept[i].Steps {
			p.count++
			st.RunKey, st.Number, st.ID, st.Generation = run.Key, p.count, data.NewID(), run.Generation
			p.steps[st.Name] = &st
			rows = append(rows, new(st))
		}
	}
	for _, n := range p.Graph.Nodes {
		node := cmp.Or(known[n.ID], &data.Node{RunKey: run.Key, NodeID: n.ID, Status: data.Pending})
		p.nodes[n.ID] = node
		if len(p.Graph.Nodes) > 1 || run.Generation > 1 {
			rows = append(rows, new(*node))
		}
	}
	return rows
}

// Load reads the rows. The run's records have the items of its maps, and their ends.
func (p *Plan) Load(ctx context.Context, r data.Reader, run *data.Run, records []data.Memo) error {
	rows, err := r.Nodes(ctx, run.Key)
	if err != nil {
		return err
	}
	for i := range rows {
		p.nodes[rows[i].NodeID] = &rows[i]
	}
	for _, n := range p.Graph.Nodes {
		if p.nodes[n.ID] == nil {
			p.nodes[n.ID] = &data.Node{RunKey: run.Key, NodeID: n.ID, Status: data.Pending}
		}
	}
	for {
		steps, err := r.ByProject().Steps(ctx, run.Project, run.Key, "", p.count, page)
		if err != nil {
			return err
		}
		for i := range steps.Rows {
			s := &steps.Rows[i]
			if p.count = s.Number; s.Generation == run.Generation {
				p.steps[s.Name] = s
			}
		}
		if !steps.More {
			return p.loadMaps(records)
		}
	}
}

// page is the number of rows in one read.
const page = 500

// Scene is what expressions of nodes are evaluated on, beside a run that goes on: their evaluation can take a second.
type Scene struct {
	now   time.Time
	query string
	state json.RawMessage
	nodes map[string]*data.Node
}

// Scene returns the values on which the expressions of some nodes are evaluated. It copies the rows only for nodes with expressions: the others
// read only nodes that have ended, whose rows do not change.
func (p *Plan) Scene(query string, state json.RawMessage, of ...*graph.Node) *Scene {
	s := &Scene{p.Now(), query, state, p.nodes}
	if slices.ContainsFunc(of, (*graph.Node).Computes) {
		s.nodes = make(map[string]*data.Node, len(p.nodes))
		for id, row := range p.nodes {
			s.nodes[id] = new(*row)
		}
		for _, n := range of {
			s.nodes[n.ID].Round = p.round(n)
		}
	}
	return s
}

func (s *Scene) scope() map[string]any { return graph.Scope(s.now, s.query, s.state, s.nodes) }

// round returns the round of a node's present execution, or of its next one if none has begun: a retry keeps it. It is 0 for a node that is
// not repeated.
func (p *Plan) round(n *graph.Node) int {
	last := p.steps[n.ID]
	switch {
	case n.Rounds() == 0:
		return 0
	case last == nil:
		return 1
	case last.Status == data.Completed:
		return last.Round + 1
	}
	return last.Round
}

// Runs reports whether a node runs. One that has begun goes on.
func (s *Scene) Runs(ctx context.Context, n *graph.Node) (bool, error) {
	if s.nodes[n.ID].Status != data.Pending {
		return true, nil
	}
	return n.Runs(ctx, s.scope, s.nodes)
}

// Items returns the items of a node's map.
func (s *Scene) Items(ctx context.Context, n *graph.Node) ([]graph.Item, error) {
	return n.Items(ctx, s.scope)
}

// Query returns the query of a node.
func (s *Scene) Query(ctx context.Context, n *graph.Node) (string, error) {
	return n.Query(ctx, s.query, s.scope, s.nodes)
}

// Until returns the end of a node's wait, if it begins now.
func (s *Scene) Until(ctx context.Context, n *graph.Node) (time.Time, error) {
	return n.Until(ctx, s.scope, s.now)
}

// Answered returns the output of a node that asks, as [graph.Node.Answered].
func (s *Scene) Answered(ctx context.Context, n *graph.Node, a plugins.Answer, user string) (json.RawMessage, error) {
	return n.Answered(ctx, s.scope, a, user)
}

// Over reports whether an output of a repeated node's round makes the node over.
func (s *Scene) Over(ctx context.Context, n *graph.Node, output json.RawMessage) (bool, error) {
	s.nodes[n.ID].Output = output
	return n.Over(ctx, s.scope)
}

// Message returns the question of a node or its approval, "" for the default.
func (s *Scene) Message(ctx context.Context, n *graph.Node) (string, error) {
	return n.Message(ctx, s.scope)
}

// Due returns the nodes that can start or be skipped now. It fails when a node has failed its run, just before a crash.
func (p *Plan) Due() (list []*graph.Node, err error) {
	for _, n := range p.Graph.Nodes {
		row := p.nodes[n.ID]
		if row.Status == data.Failed && !n.Catches(row.Error) {
			return nil, &plugins.Error{Code: row.Error.Code, Message: row.Error.Message}
		}
		if m := p.maps[n.ID]; m != nil && !row.Status.Final() && p.approved(n) {
			list = append(list, p.dueItems(m)...)
			continue
		}
		if !p.started[n.ID] && !row.Status.Final() && row.Status != data.Waiting && n.NeedsMet(p.nodes) {
			list = append(list, n)
		}
	}
	return list, nil
}

// Skip returns the row of a node that is skipped.
func (p *Plan) Skip(n *graph.Node) data.Row {
	now := time.Now()
	row := p.nodes[n.ID]
	row.Status, row.CompletedAt = data.Skipped, &now
	return new(*row)
}

// Start notes that this process executes a node.
func (p *Plan) Start(n *graph.Node) { p.started[n.StepName()] = true }

// Begin makes the step of a node's next execution, which counts once Enter is called with it.
func (p *Plan) Begin(n *graph.Node, run *data.Run, query string) *data.Step {
	now := time.Now()
	p.count++
	st := &data.Step{
		RunKey: run.Key, Number: p.count, ID: data.NewID(), Generation: run.Generation, NodeID: n.ID,
		Name: n.StepName(), Execution: 1, Round: p.round(n), Status: data.Running, Input: data.Plain(query), StartedAt: now,
	}
	if last := p.steps[st.Name]; last != nil && last.Round == st.Round {
		st.Execution = last.Execution + 1
	}
	node := p.nodes[n.ID]
	node.Round, node.Status, node.Error, node.CompletedAt, node.Progress = st.Round, data.Running, nil, nil, node.Map.Fraction()
	if n.Item != nil {
		st.Item = &n.Item.Item
	}
	if node.StartedAt == nil {
		node.StartedAt = &now
	}
	return st
}

// Recount gives a step of a rerun the round and the execution that it had.
func (p *Plan) Recount(st *data.Step, round, execution int) {
	st.Round, st.Execution, p.nodes[st.NodeID].Round = round, execution, round
}

// Enter makes a step the latest of its node.
func (p *Plan) Enter(st *data.Step) { p.steps[st.Name] = st }

// Open returns the step of a node that a crash or a question has left open, or nil.
func (p *Plan) Open(n *graph.Node) *data.Step {
	if last := p.steps[n.StepName()]; last != nil && !last.Status.Final() {
		return last
	}
	return nil
}

// HasStep reports whether a node has a step, which has its name.
func (p *Plan) HasStep(name string) bool { return p.steps[name] != nil }

// Rows returns the rows of a step and of its node, and of an item that has ended its record.
func (p *Plan) Rows(st *data.Step) []data.Row {
	rows := []data.Row{new(*st), new(*p.nodes[st.NodeID])}
	if e := p.endOf(st); e != nil {
		rows = append(rows, &data.Memo{RunKey: st.RunKey, Generation: st.Generation, Step: st.Number, Place: endPlace, Done: true, Output: data.MustJSON(e)})
	}
	return rows
}

// Wait lets a step and its node wait for an answer.
func (p *Plan) Wait(st *data.Step) {
	st.Status = data.Waiting
	p.goOn(st.NodeID, p.state(st.NodeID))
}

// goOn sets the state of a node that has not ended. That of a map may have failed before its other items.
func (p *Plan) goOn(id string, status data.Status) {
	if node := p.nodes[id]; !node.Status.Final() {
		node.Status = status
	}
}

// Over reports whether a node has ended, perhaps before an item of its map that is to be executed again.
func (p *Plan) Over(n *graph.Node) bool { return n.Item != nil && p.nodes[n.ID].Status.Final() }

// Fail ends a step with an error, and its node unless that is executed again: it continues with its next execution then, also after
// a crash.
func (p *Plan) Fail(st *data.Step, e *agui.OutputError, again bool) {
	now := time.Now()
	st.Status, st.Error, st.CompletedAt = data.Failed, e, &now
	switch {
	case again:
	case p.tolerates(st, e):
		p.endItem(st, &graph.Ended{Error: e})
	default:
		p.FailNode(st.NodeID, e)
	}
}

// FailNode ends a node with an error, also one without a step, and returns its row.
func (p *Plan) FailNode(id string, e *agui.OutputError) data.Row {
	now := time.Now()
	node := p.nodes[id]
	node.Status, node.Error, node.Output, node.CompletedAt = data.Failed, e, nil, &now
	return new(*node)
}

// Complete ends a step and its node with an output, of which the step shows text.
func (p *Plan) Complete(st *data.Step, text string, output json.RawMessage) {
	now := time.Now()
	st.Status, st.Output, st.CompletedAt = data.Completed, &text, &now
	if p.maps[st.NodeID] != nil { // an item, or the approval of them all
		p.endItem(st, &graph.Ended{Output: output})
		return
	}
	node := p.nodes[st.NodeID]
	node.Status, node.Output, node.CompletedAt, node.Progress = data.Completed, output, &now, 1
}

// Repeat makes a node due for another round behind the step that has completed it.
func (p *Plan) Repeat(st *data.Step) {
	delete(p.started, st.NodeID)
	node := p.nodes[st.NodeID]
	node.Status, node.CompletedAt, node.Progress = data.Running, nil, 0
}

// Output returns the output of the run.
func (p *Plan) Output() json.RawMessage { return p.Graph.Output(p.nodes) }

// Go lets a step and its node go on after a wait.
func (p *Plan) Go(st *data.Step) {
	st.Status = data.Running
	p.goOn(st.NodeID, data.Running)
}

// Rouse sets the waiting nodes to running whose steps ask nothing, and returns their steps.
func (p *Plan) Rouse(asks func(step int) bool) (steps []*data.Step) {
	for _, st := range p.steps {
		if st.Status == data.Waiting && !asks(st.Number) {
			p.Go(st)
			steps = append(steps, st)
		}
	}
	return steps
}

// Resume sets the waiting nodes that have something to do to running, and returns their steps. A node stays as it is while it has open
// questions and no answer, of its own or to a question of the run, unless it also waits for a time or an event: then it does so again.
func (p *Plan) Resume(all []data.Interrupt, rests func(step int) bool) []*data.Step {
	open, answered := make(map[int]bool), make(map[int]bool)
	for i := range all {
		switch all[i].Status {
		case data.InterruptOpen:
			open[all[i].Step] = true
		case data.InterruptAnswered:
			answered[all[i].Step] = true
		}
	}
	return p.Rouse(func(step int) bool { return open[step] && !answered[step] && !answered[0] && !rests(step) })
}

// Limits of the latest progress messages in a node's row.
const (
	maxMessages = 50
	maxMessage  = 4 << 10 // bytes
)

// Progress records a worker's progress and returns the node's row, or nil when there is none.
func (p *Plan) Progress(id string, value json.RawMessage) data.Row {
	var made struct {
		Progress float64 `json:"progress"`
		Message  string  `json:"message"`
	}
	n := p.nodes[id]
	if n == nil || json.Unmarshal(value, &made) != nil {
		return nil
	}
	if n.Progress = min(max(made.Progress, 0), 1); n.Map != nil { // it is one of an item
		n.Progress = n.Map.Fraction()
	}
	if made.Message != "" {
		n.Messages = append(slices.Clone(n.Messages[max(0, len(n.Messages)-maxMessages+1):]), data.Clip(made.Message, maxMessage))
	}
	return new(*n)
}

// Settle sets steps and nodes that have not ended to status and returns their rows. When a node has failed the run, the
// others were only stopped.
func (p *Plan) Settle(status data.Status, e *agui.OutputError) (rows []data.Row) {
	now := time.Now()
	pending := status
	if status == data.Failed {
		pending = data.Skipped
	}
	if status == data.Failed && p.Broken() {
		status, e = data.Cancelled, nil
	}
	for _, st := range p.steps {
		if st.Status.Final() {
			continue
		}
		st.Status, st.Error = status, e
		if status.Final() {
			st.CompletedAt = &now
		}
		rows = append(rows, new(*st))
	}
	for _, n := range p.nodes {
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
		rows = append(rows, new(*n))
	}
	return rows
}

// Has reports whether a node has a status.
func (p *Plan) Has(status data.Status) bool {
	for _, n := range p.nodes {
		if n.Status == status {
			return true
		}
	}
	return false
}

// Broken reports whether the failure of a node fails the run.
func (p *Plan) Broken() bool {
	return slices.ContainsFunc(p.Graph.Nodes, func(n *graph.Node) bool {
		row := p.nodes[n.ID]
		return row.Status == data.Failed && !n.Catches(row.Error)
	})
}

// Goes reports whether the step of that number is its node's latest and has not ended.
func (p *Plan) Goes(number int) bool {
	for _, st := range p.steps {
		if st.Number == number {
			return !st.Status.Final()
		}
	}
	return false
}
