package graph

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/data"
)

// Executed is the result of a node's execution.
type Executed struct {
	Output json.RawMessage
	State  json.RawMessage // of the thread, afterwards
}

// Play executes a registered workflow for a test: one node after the other, each retry at once. A wait moves its clock, and calls waited
// with its end. Play returns the workflow's output, and stops at the first error that is not retried.
func Play(
	ctx context.Context, reg *host.Registry, name, query string, state json.RawMessage,
	waited func(node string, until time.Time), execute func(n *Node, query string) (Executed, error),
) (json.RawMessage, error) {
	set, err := Compile(reg)
	if err != nil {
		return nil, err
	}
	g := set.Workflow(name)
	rows := make(map[string]*data.Node, len(g.Nodes))
	for _, n := range g.Nodes {
		rows[n.ID] = &data.Node{NodeID: n.ID, Status: data.Pending}
	}
	var slept time.Duration
	env := func() map[string]any { return Scope(time.Now().Add(slept), query, state, rows) }
	for range g.Nodes { // each pass ends at least one node
		for _, n := range g.Nodes {
			row := rows[n.ID]
			if row.Status != data.Pending || !n.NeedsMet(rows) {
				continue
			}
			runs, err := n.Runs(ctx, env, rows)
			if err != nil {
				return nil, err
			}
			if !runs {
				row.Status = data.Skipped
				continue
			}
			in, err := n.Query(ctx, query, env, rows)
			if err != nil {
				return nil, err
			}
			if n.Waits() {
				now := time.Now().Add(slept)
				until, err := n.Until(ctx, env, now)
				if err != nil {
					return nil, err
				}
				slept += max(until.Sub(now), 0)
				waited(n.ID, until)
			}
			if n.Agent == "" && n.Tool == "" {
				row.Status = data.Completed
				continue
			}
			out, err := execute(n, in)
			for retries := 0; retries < n.Retry.Retries && isRetryable(err); retries++ {
				out, err = execute(n, in)
			}
			if err != nil {
				return nil, err
			}
			row.Status, row.Output, state = data.Completed, out.Output, out.State
		}
	}
	return g.Output(rows), nil
}

func isRetryable(err error) bool {
	e, ok := errors.AsType[*plugins.Error](err)
	return ok && e.Retryable
}
