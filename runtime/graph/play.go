package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Executed is the result of a node's execution.
type Executed struct {
	Output json.RawMessage
	State  json.RawMessage // of the thread, afterwards
	Answer plugins.Answer  // of a node that asks; its query is the message
}

// Play executes a registered workflow for a test: one node after the other, each retry at once. A wait moves its clock, and calls waited
// with its end. Play returns the workflow's output, and stops at the first error that is neither retried nor caught.
func Play(
	ctx context.Context, reg *host.Registry, name, query string, state json.RawMessage,
	waited func(node string, until time.Time), execute func(n *Node, query string) (Executed, error),
) (json.RawMessage, error) {
	set, err := Compile(reg)
	if err != nil {
		return nil, err
	}
	p := &player{g: set.Workflow(name), rows: make(map[string]*data.Node), query: query, state: state, waited: waited, execute: execute}
	for _, n := range p.g.Nodes {
		p.rows[n.ID] = &data.Node{NodeID: n.ID, Status: data.Pending}
	}
	for range p.g.Nodes { // each pass ends at least one node
		for _, n := range p.g.Nodes {
			row := p.rows[n.ID]
			if row.Status != data.Pending || !n.NeedsMet(p.rows) {
				continue
			}
			runs, err := n.Runs(ctx, p.env, p.rows)
			if err != nil {
				return nil, err
			}
			if !runs {
				row.Status = data.Skipped
				continue
			}
			if err := p.play(ctx, n, row); err != nil {
				if row.Error = outputError(err); row.Error == nil || !n.Catches(row.Error) {
					return nil, err
				}
				row.Status, row.Output = data.Failed, nil
			}
		}
	}
	return p.g.Output(p.rows), nil
}

// player plays a workflow.
type player struct {
	g       *Graph
	rows    map[string]*data.Node
	query   string
	state   json.RawMessage
	slept   time.Duration // how far waits have moved the clock
	waited  func(node string, until time.Time)
	execute func(n *Node, query string) (Executed, error)
}

func (p *player) now() time.Time { return time.Now().Add(p.slept) }

func (p *player) env() map[string]any { return Scope(p.now(), p.query, p.state, p.rows) }

// play plays a node, in all its rounds.
func (p *player) play(ctx context.Context, n *Node, row *data.Node) error {
	if n.Map != nil {
		return p.playItems(ctx, n, row)
	}
	for over := false; !over; {
		if n.Rounds() > 0 {
			row.Round++
		}
		in, err := n.Query(ctx, p.query, p.env, p.rows)
		if err != nil {
			return err
		}
		if n.Wait.Event != "" {
			out, err := p.execute(n, "")
			row.Status, row.Output = data.Completed, out.Output
			return err
		}
		if n.Waits() && row.Round <= 1 {
			now := p.now()
			until, err := n.Until(ctx, p.env, now)
			if err != nil {
				return err
			}
			p.slept += max(until.Sub(now), 0)
			p.waited(n.ID, until)
		}
		if n.Ask != nil {
			return p.ask(ctx, n, row)
		}
		if n.Agent == "" && n.Tool == "" {
			break
		}
		if row.Output, err = p.retry(n, in); err != nil {
			return err
		}
		if n.Rounds() == 0 {
			break
		}
		if over, err = n.Over(ctx, p.env); err == nil && !over && row.Round == n.Rounds() {
			row.Output, err = n.Cut(row.Output)
			over = true
		}
		if err != nil {
			return err
		}
	}
	row.Status = data.Completed
	return nil
}

// retry executes a node with its retries, and returns the output.
func (p *player) retry(n *Node, in string) (json.RawMessage, error) {
	for execution := 1; ; execution++ {
		out, err := p.execute(n, in)
		if err == nil {
			p.state = out.State
			return out.Output, nil
		}
		if e := outputError(err); e == nil || !n.Retries(e, execution) {
			return nil, err
		}
	}
}

// playItems plays the items of a node's map.
func (p *player) playItems(ctx context.Context, n *Node, row *data.Node) error {
	list, err := n.Items(ctx, p.env)
	if err != nil {
		return err
	}
	items, ended := n.Unfold(list), make([]*Ended, len(list))
	for i, item := range items {
		ended[i] = &Ended{Error: item.Item.Error}
		if ended[i].Error != nil {
			continue
		}
		if ended[i].Output, err = p.retry(item, item.Item.Input); err != nil {
			if ended[i].Error = outputError(err); ended[i].Error == nil || !item.Tolerates(ended[i].Error) {
				return err
			}
		}
	}
	row.Status, row.Map, row.Output = data.Completed, new(data.MapProgress), n.Output(items, ended)
	return nil
}

func (p *player) ask(ctx context.Context, n *Node, row *data.Node) error {
	message, err := n.Message(ctx, p.env)
	if err != nil {
		return err
	}
	out, err := p.execute(n, message)
	if err == nil {
		row.Output, err = n.Answered(ctx, p.env, out.Answer, "")
	}
	if row.Status = data.Completed; row.Output == nil {
		row.Status = data.Skipped
	}
	return err
}

// outputError returns an error of a plugin, nil for another one.
func outputError(err error) *agui.OutputError {
	e, ok := errors.AsType[*plugins.Error](err)
	if !ok {
		return nil
	}
	return &agui.OutputError{Code: cmp.Or(e.Code, "failed"), Message: e.Message, Retryable: e.Retryable}
}
