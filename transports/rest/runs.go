package rest

import (
	"context"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/query"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/wire"
)

// several are the values of a parameter that may be given more than once.
func several(c *fiber.Ctx, name string) (list []string) {
	for _, v := range c.Context().QueryArgs().PeekMulti(name) {
		list = append(list, string(v))
	}
	return list
}

// metadata returns the parameters metadata.<name>, or nil.
func metadata(c *fiber.Ctx) (members map[string]string) {
	for key, value := range c.Context().QueryArgs().All() {
		if name, ok := strings.CutPrefix(string(key), "metadata."); ok {
			if members == nil {
				members = make(map[string]string)
			}
			members[name] = string(value)
		}
	}
	return members
}

// list answers GET agent-runs: the runs the caller may see, newest first.
func (t Transport) list(c *fiber.Ctx, who runtime.Caller) error {
	page, err := query.Runs{
		Statuses: several(c, "status"), Agent: c.Query("agent"), WorkflowID: c.Query("workflowId"), ThreadID: c.Query("threadId"),
		Since: c.Query("since"), Until: c.Query("until"), Text: c.Query("q"), Order: c.Query("order"),
		Tags: several(c, "tag"), Metadata: metadata(c),
		Cursor: c.Query("cursor"), Limit: c.Query("limit"), Count: c.Query("count"),
	}.Page(c.UserContext(), t.Runtime, who)
	if err != nil {
		return err
	}
	return c.JSON(page)
}

// start answers POST agent-runs.
func (t Transport) start(c *fiber.Ctx, who runtime.Caller) error {
	req, err := wire.DecodeRun(c.Request().Body())
	if err != nil {
		return err
	}
	if req.Idempotency, err = key(c, who); err != nil {
		return err
	}
	transports.Decoded(c)
	started, err := t.detached(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
}

// rerun answers POST rerun: the caller starts a run again that it may read.
func (t Transport) rerun(c *fiber.Ctx, who runtime.Caller) error {
	how, err := wire.DecodeRerun(c.Request().Body())
	if err != nil {
		return err
	}
	reader, err := transports.InStead(who, c.Query("user"), runtime.RoleViewer)
	if err != nil {
		return err
	}
	key, err := key(c, who)
	if err != nil {
		return err
	}
	held, release := t.Streams.HoldOf(c)
	defer release()
	how.Reserve = func(n int) error { // it counts as if it stood in the body, and as what is decoded of that
		if err := t.Streams.Rates.Still(who); err != nil { // others had their turn meanwhile
			return err
		}
		err := held.Grow(2 * n)
		if err == nil {
			t.Streams.Rates.Charge(who, rates.Stored*n)
		}
		return err
	}
	req, err := t.copied(c.UserContext(), who, reader, runID(c), how)
	if err != nil {
		return err
	}
	req.Idempotency = key
	started, err := t.detached(c.UserContext(), who, req)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
}

// copied reads what a run is run again with, in its caller's turn.
func (t Transport) copied(ctx context.Context, who, reader runtime.Caller, run string, how runtime.RerunRequest) (runtime.StartRequest, error) {
	end, err := t.Streams.Turn(ctx, who)
	if err != nil {
		return runtime.StartRequest{}, err
	}
	defer end()
	return t.Runtime.Rerun(ctx, who, reader, run, how)
}

// detached starts a run, and detaches it from any connection.
func (t Transport) detached(ctx context.Context, who runtime.Caller, req runtime.StartRequest) (runtime.Started, error) {
	started, err := t.Streams.Ownership.StartRun(ctx, who, req)
	if err == nil {
		t.Streams.Ownership.Detach(who, started)
	}
	return started, err
}

// get answers GET of a run.
func (t Transport) get(c *fiber.Ctx, who runtime.Caller) error {
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	asks, err := query.Asks(c.UserContext(), t.Runtime, who, &run)
	if err != nil {
		return err
	}
	last, err := t.Runtime.Logs.LastEventOf(c.UserContext(), &run)
	if err != nil {
		return err
	}
	shown := wire.NewRun(&run, asks, t.Runtime.Prices.Sum(run.Usage))
	shown.LastEvent = wire.NewLastEvent(last)
	shown.Waiting = wire.NewWaiting(t.Runtime.Logs.WaitOf(c.UserContext(), &run))
	return c.JSON(shown)
}

// definition answers GET definition: the request that started the run.
func (t Transport) definition(c *fiber.Ctx, who runtime.Caller) error {
	w, err := t.Runtime.Runs.Workflow(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	return c.JSON(wire.NewWorkflow(w))
}

// delete answers DELETE of a run that is over.
func (t Transport) delete(c *fiber.Ctx, who runtime.Caller) error {
	if err := t.Runtime.Delete(c.UserContext(), who, runID(c)); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}

// cancel answers POST cancel. It ignores the body.
func (t Transport) cancel(c *fiber.Ctx, who runtime.Caller) error {
	run, err := t.Runtime.Cancel(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	return c.JSON(wire.NewCancelled(&run))
}

// resume answers POST resume.
func (t Transport) resume(c *fiber.Ctx, who runtime.Caller) error {
	entries, err := wire.DecodeResume(c.Request().Body())
	if err != nil {
		return err
	}
	key, err := key(c, who)
	if err != nil {
		return err
	}
	transports.Decoded(c)
	run, err := t.Runtime.ResumeOnce(c.UserContext(), who, runID(c), entries, key)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewResumed(&run))
}
