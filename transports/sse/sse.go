// Package sse is the event stream of runs over plain HTTP: a request that starts a run and may stay to watch
// it, and the log of a thread for any number of viewers, each of whom can be cut off at any event and go on
// behind it.
package sse

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's runs as streams. Its handlers return errors as they are: the server turns
// them into answers.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // the same as the server has
}

// Routes are where runs start and where their events are shown.
func (t Transport) Routes() []transports.Route {
	return []transports.Route{
		{Method: fiber.MethodPost, Path: "/api/v1/agent/runs", Known: t.start, Input: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agent/runs/:thread_id/events", Known: t.events, Stream: true},
	}
}

// start answers POST runs: with where to watch the run, or, when the client takes an event stream rather
// than JSON, with its events.
func (t Transport) start(c *fiber.Ctx, who runtime.Caller) error {
	body := c.Request().Body()
	req, err := wire.DecodeRun(body)
	if err != nil {
		return err
	}
	who, err = transports.InBody(c, who, req.ProjectID)
	if err != nil {
		return err
	}
	req.Idempotency, err = transports.Idempotency(c, who, c.Path(), req.BodyHash)
	if err != nil {
		return err
	}
	transports.Decoded(c)
	shown := c.Accepts(fiber.MIMEApplicationJSON, "text/event-stream") == "text/event-stream"
	if shown {
		if err := t.Streams.Reserve(c); err != nil {
			return err
		}
	}
	if shown && !req.Background() {
		req.Late = t.Streams.Late(who, req.Idempotency)
	}
	started, err := t.Streams.StartRun(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	if !shown {
		t.Streams.Detach(who, started)
		return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
	}
	return t.Streams.ServeRun(c, transports.RunStream{
		Caller: who, Key: req.Idempotency, Started: started,
		Projection: req.Dialect(), Background: req.Background(),
	})
}

// events answers GET events: the thread's log from a cursor on, 204 when there is nothing and nobody is busy.
func (t Transport) events(c *fiber.Ctx, who runtime.Caller) error {
	v, err := t.Streams.View(c, who)
	if err != nil {
		return err
	}
	if v.Ended {
		return c.SendStatus(fiber.StatusNoContent)
	}
	return t.Streams.Serve(c, (&viewer{*v, t.Streams}).show)
}

// viewer watches a thread.
type viewer struct {
	transports.View
	streams *transports.Streams
}

// show writes the log. A server that stops asks its viewers to come back, not all at once.
//
// An idle viewer costs the stack on which it waits, so what needs much of it stands in functions of its own.
func (v *viewer) show(ctx context.Context, w *stream.Writer) error {
	if err := v.greet(w); err != nil {
		return err
	}
	tail, err := v.streams.Tail(ctx, &v.View, agui.Seed)
	if err != nil {
		return err
	}
	defer tail.Cursor.Close()
	err = v.streams.Follow(ctx, w, tail)
	if errors.Is(err, runtime.ErrStopping) {
		return v.sendAway(w)
	}
	return err
}

// greet writes what stands before the first event. A client that began at the log's end is told where that was, lest
// it miss events when it comes back before it has got one; for any other a block without data would say nothing that it
// does not know, and some parsers take it for an event.
func (v *viewer) greet(w *stream.Writer) error {
	_, _ = w.WriteString("retry: 1000\n")
	if v.Latest {
		_, _ = w.WriteString("id: " + strconv.FormatInt(v.After, 10) + "\n\n")
	}
	return w.Flush()
}

func (v *viewer) sendAway(w *stream.Writer) error {
	_, _ = w.WriteString("retry: " + strconv.Itoa(1000+rand.N(4001)) + "\n")
	return w.Flush()
}
