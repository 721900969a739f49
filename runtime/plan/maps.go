package plan

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
)

// The items of a map are recorded with the run under step 0, and the end of each under its step.
const (
	itemsPlace = "map:" // and the node
	endPlace   = "end"
)

// mapped is the map of a node that has begun.
type mapped struct {
	node  *graph.Node
	items []*graph.Node
	ended []*graph.Ended // by index, nil for an item that has not ended
}

// mappedTo returns the map of a node with its items. Those without an input have failed.
func mappedTo(n *graph.Node, items []graph.Item) *mapped {
	m := &mapped{n, n.Unfold(items), make([]*graph.Ended, len(items))}
	for i := range items {
		if e := items[i].Error; e != nil {
			m.ended[i] = &graph.Ended{Error: e}
		}
	}
	return m
}

// Unfold begins the map of a node with its items, and returns the rows. Without items to execute the node is completed.
func (p *Plan) Unfold(n *graph.Node, run *data.Run, items []graph.Item) []data.Row {
	now := time.Now()
	m, node := mappedTo(n, items), p.nodes[n.ID]
	p.maps[n.ID], node.Status, node.StartedAt, node.Map = m, data.Running, &now, &data.MapProgress{Items: len(items)}
	for _, e := range m.ended {
		if e != nil {
			node.Map.Failed++
		}
	}
	node.Progress = node.Map.Fraction()
	p.conclude(m)
	return []data.Row{new(*node), &data.Memo{
		RunKey: run.Key, Generation: run.Generation, Place: itemsPlace + n.ID, Done: true, Output: data.MustJSON(items),
	}}
}

// Unfolded reports whether the map of a node has begun.
func (p *Plan) Unfolded(n *graph.Node) bool { return p.maps[n.ID] != nil }

// Unapproved returns the items of a node that a person has to approve, "" for none.
func (p *Plan) Unapproved(n *graph.Node) string {
	m := p.maps[n.ID]
	if p.approved(n) || p.nodes[n.ID].Status.Final() {
		return ""
	}
	list := make([]*graph.Item, len(m.items))
	for i := range m.items {
		list[i] = m.items[i].Item
	}
	return string(data.MustJSON(list))
}

// approved reports whether the items of a map may be executed.
func (p *Plan) approved(n *graph.Node) bool {
	st := p.steps[n.ID]
	return !n.Approval || st != nil && st.Status == data.Completed
}

// loadMaps reads the maps of nodes from the records.
func (p *Plan) loadMaps(records []data.Memo) error {
	ends := make(map[int]json.RawMessage)
	lists := make(map[string]json.RawMessage)
	for i := range records {
		switch m := &records[i]; {
		case m.Step == 0:
			lists[m.Place] = m.Output
		case m.Place == endPlace:
			ends[m.Step] = m.Output
		}
	}
	for _, n := range p.Graph.Nodes {
		list := lists[itemsPlace+n.ID]
		if n.Map == nil || list == nil {
			continue
		}
		var items []graph.Item
		if err := json.Unmarshal(list, &items); err != nil {
			return fmt.Errorf("items of node %s: %w", n.ID, err)
		}
		m := mappedTo(n, items)
		p.maps[n.ID] = m
		for i, item := range m.items {
			if st := p.steps[item.StepName()]; st != nil && ends[st.Number] != nil {
				if err := json.Unmarshal(ends[st.Number], &m.ended[i]); err != nil {
					return fmt.Errorf("end of step %s: %w", st.Name, err)
				}
			}
		}
	}
	return nil
}

// dueItems returns the items that can start now: first those that have begun.
func (p *Plan) dueItems(m *mapped) (list []*graph.Node) {
	var next []*graph.Node
	busy := 0
	for i, item := range m.items {
		st := p.steps[item.StepName()]
		switch {
		case m.ended[i] != nil:
			continue
		case p.started[item.StepName()], st != nil && st.Status == data.Waiting:
			busy++
		case st != nil:
			busy++
			list = append(list, item)
		default:
			next = append(next, item)
		}
	}
	return append(list, next[:min(len(next), max(m.node.AtOnce()-busy, 0))]...)
}

// state returns the state of a node from its steps that have not ended: it waits if one of them does and none runs.
func (p *Plan) state(id string) data.Status {
	waits := false
	for _, st := range p.steps {
		if st.NodeID != id {
			continue
		}
		if st.Status == data.Running {
			return data.Running
		}
		waits = waits || st.Status == data.Waiting
	}
	if waits {
		return data.Waiting
	}
	return data.Running
}

// tolerates reports whether the node of a step goes on without it.
func (p *Plan) tolerates(st *data.Step, e *agui.OutputError) bool {
	m := p.maps[st.NodeID]
	return m != nil && st.Item != nil && m.items[st.Item.Index].Tolerates(e)
}

// endOf returns how the item of a step has ended, nil for a step that has not or of no item.
func (p *Plan) endOf(st *data.Step) *graph.Ended {
	m := p.maps[st.NodeID]
	if m == nil || st.Item == nil || !st.Status.Final() {
		return nil
	}
	return m.ended[st.Item.Index]
}

// endItem ends an item of a map with its step, and the node with its last item. A step of no item approves them all.
func (p *Plan) endItem(st *data.Step, e *graph.Ended) {
	m, node := p.maps[st.NodeID], p.nodes[st.NodeID]
	if st.Item != nil {
		m.ended[st.Item.Index] = e
		counts := *node.Map // rows on their way have the old one
		if e.Error == nil {
			counts.Done++
		} else {
			counts.Failed++
		}
		node.Map, node.Progress = &counts, counts.Fraction()
	}
	if !node.Status.Final() {
		node.Status = p.state(node.NodeID)
		p.conclude(m)
	}
}

// conclude ends the node of a map once its items have all ended, or have too large outputs.
func (p *Plan) conclude(m *mapped) {
	size, all := 0, true
	for _, e := range m.ended {
		if all = all && e != nil; e != nil {
			size += len(e.Output)
		}
	}
	now := time.Now()
	switch node := p.nodes[m.node.ID]; {
	case size > graph.MaxBytes:
		node.Status, node.CompletedAt = data.Failed, &now
		node.Error = &agui.OutputError{Code: "map_too_large", Message: fmt.Sprintf("Node %s: the outputs of its items have more than %d bytes", node.NodeID, graph.MaxBytes)}
	case all:
		node.Status, node.CompletedAt, node.Output, node.Progress = data.Completed, &now, m.node.Output(m.items, m.ended), 1
	}
}
