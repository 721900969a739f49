package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
)

const (
	// mostNeeds is the number of runs whose nodes are remembered.
	mostNeeds = 20_000
	// readAtSweep is how many definitions of runs a sweep reads, and how many runs it fails, at most.
	readAtSweep = 1000
)

// absence is a run that no instance may execute.
type absence struct {
	run   data.RunHead
	since time.Time
}

// canExecute reports whether this instance may execute a run with these nodes, nil for those of its workflow: it has the agents and
// tools, and the agents' labels.
func (f *Fleet) canExecute(run *data.RunHead, nodes []plugins.Node) bool {
	if f.cfg.Identity.Role == Gateway {
		return false
	}
	reg := f.cfg.Plugins().For(run.Project)
	if nodes == nil {
		w, ok := reg.Workflow(run.WorkflowID)
		if !ok {
			return false
		}
		nodes = w.Nodes
	}
	return !slices.ContainsFunc(nodes, func(n plugins.Node) bool {
		if n.Agent == "" && n.Tool == "" {
			return false
		}
		if n.Agent == "" {
			_, is := reg.Tool(n.Tool)
			_, boxed := reg.Toolbox(n.Tool)
			return !is && !boxed
		}
		a, ok := reg.Agent(n.Agent)
		return !ok || a.Info().RunOn != "" && !slices.Contains(f.cfg.Identity.Labels, a.Info().RunOn)
	})
}

// nodesOf returns the nodes of a run, as far as its head has them: nil means those of its workflow.
func (f *Fleet) nodesOf(run *data.RunHead) []plugins.Node {
	if run.Agent != "" {
		return []plugins.Node{{Agent: run.Agent}}
	}
	if tool, ok := graph.ToolOf(run.WorkflowID); ok {
		return []plugins.Node{{Tool: tool}}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.needs[run.Key]
}

// Offers implements queue.Servers: other runs of a workflow may have begun with other nodes.
func (f *Fleet) Offers(run *data.RunHead) (offers, others bool) {
	nodes := f.nodesOf(run)
	return f.canExecute(run, nodes), nodes != nil && run.Agent == ""
}

// Executes is Offers for a run with these nodes. Those of others are remembered.
func (f *Fleet) Executes(run *data.RunHead, nodes []plugins.Node) bool {
	if f.canExecute(run, nodes) {
		return true
	}
	f.remember(run.Key, nodes)
	return false
}

// Elsewhere implements queue.Servers.
func (f *Fleet) Elsewhere(run *data.RunHead) (may, free bool) { return f.Others(run, f.nodesOf(run)) }

// offersFound is Offers for a run that was found in the database. If this instance does not have the run's workflow, it reads what the
// run was started with. known is false if that is not possible now.
func (f *Fleet) offersFound(ctx context.Context, run *data.RunHead) (offers, known bool) {
	if offers, _ = f.Offers(run); offers || f.nodesOf(run) != nil {
		return offers, true
	}
	if !f.readNodes(ctx, run) {
		return false, false
	}
	if offers, _ = f.Offers(run); offers {
		f.cfg.Wake() // it may wait here
	}
	return offers, true
}

// readNodes reads with which nodes a run was started. It reports false if that is not possible now.
func (f *Fleet) readNodes(ctx context.Context, head *data.RunHead) bool {
	f.mu.Lock()
	f.nodesRead++
	most := f.nodesRead > readAtSweep
	f.mu.Unlock()
	if most {
		return false
	}
	run, err := f.cfg.Store.Run(ctx, head.Key)
	if err != nil {
		return false
	}
	w, err := graph.Definition(&run)
	if err != nil { // whoever claims it fails it
		w.Nodes = nil
	}
	f.remember(head.Key, append([]plugins.Node{}, w.Nodes...))
	return true
}

func (f *Fleet) remember(run int64, nodes []plugins.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.needs[run] = nodes
}

// Others reports whether another instance that does not stop may execute a run with these nodes, and whether one of them has a free
// slot. Any instance may execute nil, nodes that have not been read yet.
func (f *Fleet) Others(run *data.RunHead, nodes []plugins.Node) (may, free bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.servers {
		s := &f.servers[i]
		if s.ID != f.cfg.Instance && s.mayExecute(run.Project, nodes) {
			may, free = true, free || s.Free > 0
		}
	}
	return may, free
}

// NoteQueued notes the queued runs that no instance may execute.
func (f *Fleet) NoteQueued(ctx context.Context) error {
	return f.eachPlace(ctx, data.Place{}, data.EachProject, func(project data.Place) error {
		return f.eachPlace(ctx, data.Place{Project: project.Project}, data.EachLane, func(lane data.Place) error {
			if head := lane.Head(); f.MayTake(ctx, &head) {
				return nil
			}
			return f.eachPlace(ctx, lane, data.EachRow, func(row data.Place) error {
				run := row.Head()
				f.MayTake(ctx, &run)
				return nil
			})
		})
	})
}

// eachPlace calls note with rows of the queue behind a place.
func (f *Fleet) eachPlace(ctx context.Context, after data.Place, each data.Each, note func(data.Place) error) error {
	const limit = 100
	for {
		rows, err := f.cfg.Queue.Line(ctx, after, each, limit)
		if err != nil {
			return err
		}
		for i := range rows {
			if after = rows[i]; f.cfg.Stopping() {
				return nil
			}
			if err := note(after); err != nil {
				return err
			}
		}
		if len(rows) < limit {
			return nil
		}
	}
}

// MayTake is offersFound. It notes a run that no instance may execute.
func (f *Fleet) MayTake(ctx context.Context, run *data.RunHead) bool {
	offers, known := f.offersFound(ctx, run)
	if offers || !known {
		return offers
	}
	if may, _ := f.Others(run, f.nodesOf(run)); may {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	since := time.Now()
	if a, ok := f.missing[run.Key]; ok {
		since = a.since
	}
	f.next[run.Key] = absence{*run, since}
	return false
}

// EndSweep ends a sweep of NoteQueued and MayTake. It returns the runs that no instance could execute for too long.
func (f *Fleet) EndSweep() (over []data.RunHead) {
	f.mu.Lock()
	f.missing, f.next = f.next, make(map[int64]absence)
	for _, a := range f.missing {
		if time.Since(a.since) >= f.cfg.Gone && len(over) < readAtSweep {
			over = append(over, a.run)
		}
	}
	if f.nodesRead = 0; len(f.needs) > mostNeeds { // they are found again
		clear(f.needs)
	}
	f.mu.Unlock()
	slices.SortFunc(over, func(a, b data.RunHead) int { return cmp.Compare(b.Status, a.Status) }) // RUNNING before QUEUED
	return over
}

// Missing reports whether no instance may execute a run, and since when.
func (f *Fleet) Missing(run *data.RunHead) (since time.Time, is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.missing[run.Key]
	return a.since, ok && a.run.Status == run.Status
}
