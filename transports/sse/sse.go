// Package sse is the event stream of runs over plain HTTP: a request that starts a run and may stay to watch
// it, and the log of a thread for any number of viewers, each of whom can be cut off at any event and go on
// behind it.
package sse

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's runs as streams. Its handlers return errors as they are: the server turns
// them into answers.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // the same as the server has
}

// Mount adds the routes to r, which must stand for the root of the paths.
func (t Transport) Mount(r fiber.Router) {
	r.Post("/api/v1/agent/runs", t.start)
	r.Get("/api/v1/agent/runs/:thread_id/events", t.events)
}

// start answers POST runs: with where to watch the run, or, when the client takes an event stream rather
// than JSON, with its events.
func (t Transport) start(c *fiber.Ctx) error {
	body := c.BodyRaw()
	req, err := wire.DecodeRun(body)
	if err != nil {
		return err
	}
	who, err := auth.ForProject(c, cmp.Or(c.Query("projectId"), req.ProjectID))
	if err != nil {
		return err
	}
	req.Idempotency, err = wire.Idempotency(who, c.Method(), c.Path(), c.Request().Header.PeekAll("Idempotency-Key"), body)
	if err != nil {
		return err
	}
	started, err := t.Streams.StartRun(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	if c.Accepts(fiber.MIMEApplicationJSON, "text/event-stream") != "text/event-stream" {
		t.Streams.Detach(who, started)
		return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
	}
	return t.Streams.ServeRun(c, transports.RunStream{
		Caller: who, Key: req.Idempotency, Started: started,
		Projection: req.Dialect(), Background: req.Background(),
	})
}

// events answers GET events: the thread's log from a cursor on, 204 when there is nothing and nobody is busy.
func (t Transport) events(c *fiber.Ctx) error {
	who, err := auth.ForProject(c, c.Query("projectId"))
	if err != nil {
		return err
	}
	th, err := t.Runtime.Thread(c.UserContext(), who, wire.Unescape(c.Params("thread_id")))
	if err != nil {
		return err
	}
	v, err := parseView(c)
	if err != nil {
		return err
	}
	cur, err := t.Runtime.Read(c.UserContext(), th, v.after, v.follow)
	if err != nil {
		return err
	}
	v.after = cur.After()
	ended := cur.Ended()
	cur.Close() // the stream opens its own: it may never begin
	if ended {
		return c.SendStatus(fiber.StatusNoContent)
	}
	v.rt, v.key = t.Runtime, th.Key
	v.thread = th.ID
	return t.Streams.Serve(c, v.show)
}

// view is what a viewer asked for.
type view struct {
	rt     *runtime.Runtime
	key    int64 // of the thread
	thread string
	after  int64
	follow bool
	gather time.Duration
}

// show writes the log. A server that stops asks its viewers to come back, not all at once.
//
// An idle viewer costs the stack on which it waits, so what needs much of it stands in functions of its own.
func (v *view) show(ctx context.Context, w *transports.Stream) error {
	if err := v.greet(w); err != nil {
		return err
	}
	tail, err := v.tail(ctx)
	if err != nil {
		return err
	}
	defer tail.Cursor.Close()
	err = w.Follow(ctx, tail)
	if errors.Is(err, runtime.ErrStopping) {
		return v.sendAway(w)
	}
	return err
}

func (v *view) greet(w *transports.Stream) error {
	_, _ = w.WriteString("retry: 1000\nid: " + strconv.FormatInt(v.after, 10) + "\n\n")
	return w.Flush()
}

func (v *view) tail(ctx context.Context) (*transports.Tail, error) {
	cur, err := v.rt.Read(ctx, runtime.Thread{Key: v.key, ID: v.thread}, v.after, v.follow)
	return &transports.Tail{Cursor: cur, ThreadKey: v.key, Projection: agui.Seed, Gather: v.gather}, err
}

func (v *view) sendAway(w *transports.Stream) error {
	_, _ = w.WriteString("retry: " + strconv.Itoa(1000+rand.N(4001)) + "\n\n")
	return w.Flush()
}

// maxGather is the longest time a viewer may have events gathered, in milliseconds.
const maxGather = 1000

func parseView(c *fiber.Ctx) (*view, error) {
	v := new(view)
	var err error
	if v.after, err = parseCursor(cmp.Or(c.Get("Last-Event-ID"), c.Query("after_event_id", "0"))); err != nil {
		return v, err
	}
	if v.follow, err = strconv.ParseBool(c.Query("follow", "false")); err != nil {
		return v, invalid("invalid_request", "follow must be true or false")
	}
	ms, err := strconv.ParseUint(c.Query("gather", "0"), 10, 16)
	if err != nil || ms > maxGather {
		return v, invalid("invalid_request", "gather must be a number of milliseconds from 0 to 1000")
	}
	v.gather = time.Duration(ms) * time.Millisecond
	return v, nil
}

// parseCursor reads an event id, or latest for the log's end.
func parseCursor(s string) (int64, error) {
	if s == "latest" {
		return runtime.Latest, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, invalid("invalid_cursor", "A cursor is the id of an event, or latest")
	}
	return int64(n), nil
}

func invalid(code, detail string) error {
	return &runtime.Error{Kind: runtime.KindInvalid, Code: code, Detail: detail}
}
