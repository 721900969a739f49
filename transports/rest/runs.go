package rest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

// list answers GET agent-runs: the runs the caller may see, newest first.
func (t Transport) list(c *fiber.Ctx) error {
	who, err := reader(c)
	if err != nil {
		return err
	}
	f, list, err := t.filter(c, who)
	if err != nil {
		return err
	}
	limit, err := wire.Limit(c.Query("limit"))
	if err != nil {
		return err
	}
	if f.BeforeKey, err = list.Position(c.Query("cursor")); err != nil {
		return err
	}
	f.Limit = limit + 1
	runs, total, err := t.Runtime.Runs(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	var failed error
	page := wire.NewPage(list, runs, limit, total, func(r *runtime.Run) wire.Run {
		asks, err := t.asks(c.UserContext(), r)
		failed = errors.Join(failed, err)
		return wire.NewRun(r, asks)
	}, func(r *runtime.Run) int64 { return r.Key })
	if failed != nil {
		return failed
	}
	return c.JSON(page)
}

// filter reads the query of a list, and names the list that it makes.
func (t Transport) filter(c *fiber.Ctx, who runtime.Caller) (runtime.RunFilter, wire.List, error) {
	f := runtime.RunFilter{
		Status: runtime.Status(c.Query("status")), Agent: c.Query("agent"), WorkflowID: c.Query("workflowId"),
	}
	switch f.Status {
	case "", runtime.Queued, runtime.Running, runtime.Waiting, runtime.Completed, runtime.Failed, runtime.Cancelled:
	default:
		return f, "", invalid("status must be QUEUED, RUNNING, WAITING, COMPLETED, FAILED or CANCELLED")
	}
	if since := c.Query("since"); since != "" {
		var err error
		if f.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return f, "", invalid("since must be a time like 2024-01-15T10:00:00Z")
		}
	}
	if name := c.Query("threadId"); name != "" {
		th, err := t.Runtime.Thread(c.UserContext(), who, name)
		if err != nil {
			return f, "", err
		}
		f.ThreadKey = th.Key
	}
	return f, wire.List(fmt.Sprintf("runs %q %q %q %q %q %d %d",
		who.Project, who.User, f.Status, f.Agent, f.WorkflowID, f.ThreadKey, f.Since.UnixMilli())), nil
}

func invalid(detail string) error {
	return &runtime.Error{Kind: runtime.KindInvalid, Code: "invalid_request", Detail: detail}
}

// asks returns the open questions of a run that the caller may see.
func (t Transport) asks(ctx context.Context, r *runtime.Run) ([]agui.Interrupt, error) {
	if r.Status != runtime.Waiting {
		return nil, nil
	}
	return t.Runtime.InterruptsOf(ctx, r)
}

// start answers POST agent-runs.
func (t Transport) start(c *fiber.Ctx) error {
	who, err := caller(c)
	if err != nil {
		return err
	}
	req, err := wire.DecodeRun(c.BodyRaw())
	if err != nil {
		return err
	}
	if req.Idempotency, err = key(c); err != nil {
		return err
	}
	started, err := t.detached(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
}

// detached starts a run, or takes it over, so that only cancel ends it.
func (t Transport) detached(ctx context.Context, who runtime.Caller, req runtime.StartRequest) (runtime.Started, error) {
	if t.Streams == nil {
		return t.Runtime.StartRun(ctx, who, req)
	}
	started, err := t.Streams.StartRun(ctx, who, req)
	if err == nil {
		t.Streams.Detach(who, started)
	}
	return started, err
}

// get answers GET of a run.
func (t Transport) get(c *fiber.Ctx) error {
	who, err := reader(c)
	if err != nil {
		return err
	}
	run, err := t.Runtime.Run(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	asks, err := t.asks(c.UserContext(), &run)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewRun(&run, asks))
}

// delete answers DELETE of a run that is over.
func (t Transport) delete(c *fiber.Ctx) error {
	who, err := writer(c)
	if err != nil {
		return err
	}
	if err := t.Runtime.Delete(c.UserContext(), who, runID(c)); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// cancel answers POST cancel. A body says nothing and is not read.
func (t Transport) cancel(c *fiber.Ctx) error {
	who, err := writer(c)
	if err != nil {
		return err
	}
	run, err := t.Runtime.Cancel(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	return c.JSON(wire.NewCancelled(&run))
}

// resume answers POST resume.
func (t Transport) resume(c *fiber.Ctx) error {
	who, err := writer(c)
	if err != nil {
		return err
	}
	entries, err := wire.DecodeResume(c.BodyRaw())
	if err != nil {
		return err
	}
	run, err := t.Runtime.Resume(c.UserContext(), who, runID(c), entries)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewResumed(&run))
}
