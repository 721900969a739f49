package graph

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Executed is the result of a node's execution.
type Executed struct {
	Output json.RawMessage
	State  json.RawMessage // of the thread, afterwards
}

// Play executes a registered workflow for a test: one node after the other, each retry at once. It returns the workflow's output, and
// stops at the first error that is not retried.
func Play(ctx context.Context, reg *host.Registry, name, query string, state json.RawMessage, execute func(n *Node, query string) (Executed, error)) (json.RawMessage, error) {
	set, err := Compile(reg)
	if err != nil {
		return nil, err
	}
	g := set.Workflow(name)
	rows := make(map[string]*data.Node, len(g.Nodes))
	for _, n := range g.Nodes {
		rows[n.ID] = &data.Node{NodeID: n.ID, Status: data.Pending}
	}
	env := func() map[string]any { return Scope(query, state, rows) }
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
			if n.Map != nil {
				row.Map = new(data.MapProgress)
				row.Output, state, err = n.playItems(ctx, env, state, execute)
			} else if in, queryErr := n.Query(ctx, query, env, rows); queryErr == nil {
				row.Output, state, err = n.play(in, execute)
			} else {
				err = queryErr
			}
			if err != nil {
				return nil, err
			}
			row.Status = data.Completed
		}
	}
	return g.Output(rows), nil
}

// play executes a node, with its retries.
func (n *Node) play(query string, execute func(n *Node, query string) (Executed, error)) (json.RawMessage, json.RawMessage, error) {
	out, err := execute(n, query)
	for retries := 0; retries < n.Retry.Retries && isRetryable(err); retries++ {
		out, err = execute(n, query)
	}
	return out.Output, out.State, err
}

// playItems executes the items of a node's map.
func (n *Node) playItems(ctx context.Context, env func() map[string]any, state json.RawMessage, execute func(n *Node, query string) (Executed, error)) (json.RawMessage, json.RawMessage, error) {
	list, err := n.Items(ctx, env)
	if err != nil {
		return nil, state, err
	}
	items, ended := n.Unfold(list), make([]*Ended, len(list))
	for i, item := range items {
		ended[i] = &Ended{Error: item.Item.Error}
		if ended[i].Error != nil {
			continue
		}
		out, after, err := item.play(item.Item.Input, execute)
		shown, ok := errors.AsType[*plugins.Error](err)
		switch {
		case err == nil:
			ended[i].Output, state = out, after
		case ok && item.Tolerates():
			ended[i].Error = &agui.OutputError{Code: shown.Code, Message: shown.Message}
		default:
			return nil, state, err
		}
	}
	return n.Output(items, ended), state, nil
}

func isRetryable(err error) bool {
	e, ok := errors.AsType[*plugins.Error](err)
	return ok && e.Retryable
}
