// Package query answers queries of runs for several transports: REST's routes and MCP's tools give the same answers. It knows
// neither.
package query

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// Runs describes a page of runs, with the filters as in a request; empty ones match all runs.
type Runs struct {
	Statuses          []string // each may hold several, with commas between them
	Agent, WorkflowID string
	ThreadID          string // of a thread, or its conversationId
	Since, Until      string // RFC 3339
	Text              string
	Tags              []string // each may hold several, with commas between them
	Metadata          map[string]string
	Order             string // "newest", the default, or "oldest"
	Cursor, Limit     string
	Count             string // "true" to count the list
}

// Page returns the page of the runs that the caller may see.
func (q Runs) Page(ctx context.Context, rt *runtime.Runtime, who runtime.Caller) (wire.Page[wire.Run], error) {
	var page wire.Page[wire.Run]
	f, list, err := q.filter(ctx, rt, who)
	if err != nil {
		return page, err
	}
	if f.Limit, err = wire.Limit(q.Limit); err != nil {
		return page, err
	}
	if f.BeforeKey, err = list.Position(q.Cursor); err != nil {
		return page, err
	}
	if f.Count, err = wire.Count(q.Count); err != nil {
		return page, err
	}
	runs, err := rt.Runs.List(ctx, who, f)
	if err != nil {
		return page, err
	}
	var failed error
	page = wire.NewPage(list, runs, func(r *runtime.Run) wire.Run {
		asks, err := Asks(ctx, rt, who, r)
		failed = errors.Join(failed, err)
		shown := wire.NewRun(r, asks, rt.Prices.Sum(r.Usage))
		shown.Waiting = wire.NewWaiting(rt.Logs.WaitOf(ctx, r))
		return shown
	}, func(r *runtime.Run) int64 { return r.Key })
	return page, failed
}

// filter also names the list that it makes.
func (q Runs) filter(ctx context.Context, rt *runtime.Runtime, who runtime.Caller) (runtime.RunFilter, wire.List, error) {
	f := runtime.RunFilter{
		Agent: q.Agent, WorkflowID: q.WorkflowID, Text: strings.TrimSpace(q.Text), Oldest: q.Order == "oldest",
		Tags: each(q.Tags), Metadata: q.Metadata,
	}
	if q.Order != "" && q.Order != "oldest" && q.Order != "newest" {
		return f, wire.List{}, wire.Refuse("invalid_request", "order must be newest or oldest")
	}
	var err error
	if f.Statuses, err = statuses(q.Statuses); err != nil {
		return f, wire.List{}, err
	}
	if f.Since, err = wire.Moment("since", q.Since); err != nil {
		return f, wire.List{}, err
	}
	if f.Until, err = wire.Moment("until", q.Until); err != nil {
		return f, wire.List{}, err
	}
	if q.ThreadID != "" {
		th, err := rt.Threads.Get(ctx, who, q.ThreadID)
		if err != nil {
			return f, wire.List{}, err
		}
		f.ThreadKey = th.Key
	}
	list, err := wire.NewList(ctx, rt.Secrets, "runs", who, f)
	return f, list, err
}

// each returns the values of a parameter, each once.
func each(asked []string) (list []string) {
	for _, some := range asked {
		for s := range strings.SplitSeq(some, ",") {
			if s != "" {
				list = append(list, s)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func statuses(asked []string) (list []runtime.Status, err error) {
	for _, s := range each(asked) {
		switch status := runtime.Status(s); status {
		case runtime.Queued, runtime.Running, runtime.Waiting, runtime.Completed, runtime.Failed, runtime.Cancelled:
			list = append(list, status)
		default:
			return nil, wire.Refuse("invalid_request", "status must be QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
		}
	}
	return list, nil
}

// Asks returns the open questions of a run that the caller may see.
func Asks(ctx context.Context, rt *runtime.Runtime, who runtime.Caller, r *runtime.Run) ([]agui.Interrupt, error) {
	if r.Status != runtime.Waiting {
		return nil, nil
	}
	return rt.Runs.InterruptsOf(ctx, who, r)
}
