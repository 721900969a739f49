// Package query answers what is asked about runs at more than one door: the routes of REST and the tools of MCP
// say the same because they ask here. It knows neither.
package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// Runs says which page of which runs is asked for. The fields are as they stand in a request; empty ones admit
// all.
type Runs struct {
	Status, Agent, WorkflowID string
	ThreadID                  string // of a thread, or its conversationId
	Since                     string // RFC 3339
	Cursor, Limit             string
}

// Page returns the page of the runs that the caller may see, newest first.
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
	runs, err := rt.Runs(ctx, who, f)
	if err != nil {
		return page, err
	}
	var failed error
	page = wire.NewPage(list, runs, func(r *runtime.Run) wire.Run {
		asks, err := Asks(ctx, rt, r)
		failed = errors.Join(failed, err)
		return wire.NewRun(r, asks)
	}, func(r *runtime.Run) int64 { return r.Key })
	return page, failed
}

// filter also names the list that it makes.
func (q Runs) filter(ctx context.Context, rt *runtime.Runtime, who runtime.Caller) (runtime.RunFilter, wire.List, error) {
	f := runtime.RunFilter{Status: runtime.Status(q.Status), Agent: q.Agent, WorkflowID: q.WorkflowID}
	switch f.Status {
	case "", runtime.Queued, runtime.Running, runtime.Waiting, runtime.Completed, runtime.Failed, runtime.Cancelled:
	default:
		return f, "", wire.Refuse("invalid_request", "status must be QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
	}
	if q.Since != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, q.Since); err != nil {
			return f, "", wire.Refuse("invalid_request", "since must be a time like 2024-01-15T10:00:00Z")
		}
	}
	if q.ThreadID != "" {
		th, err := rt.Thread(ctx, who, q.ThreadID)
		if err != nil {
			return f, "", err
		}
		f.ThreadKey = th.Key
	}
	return f, wire.List(fmt.Sprintf("runs %q %q %q %q %q %d %d",
		who.Project(), who.User(), f.Status, f.Agent, f.WorkflowID, f.ThreadKey, f.Since.UnixMilli())), nil
}

// Asks returns the open questions of a run that the caller may see.
func Asks(ctx context.Context, rt *runtime.Runtime, r *runtime.Run) ([]agui.Interrupt, error) {
	if r.Status != runtime.Waiting {
		return nil, nil
	}
	return rt.InterruptsOf(ctx, r)
}
