// Package sse streams the events of runs over plain HTTP: in the answer to the request that starts a run, and as the log of a
// thread for any number of viewers, each of whom can disconnect at any event and continue after it.
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
	Streams *transports.Streams // the same as the server has
}

// Routes are where runs start and where their events are shown.
func (t Transport) Routes() []transports.Route {
	return []transports.Route{
		{Method: fiber.MethodPost, Path: "/api/v1/agent/runs", Known: t.start, Input: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agent/runs/:thread_id/events", Known: t.events, Stream: true},
	}
}

// start answers POST runs: with the run's names as JSON, or with its events if the client accepts an event stream.
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
		t.Streams.Ownership.Own(who, &req.StartRequest)
	}
	started, err := t.Streams.Ownership.StartRun(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	if !shown {
		t.Streams.Ownership.Detach(who, started)
		return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
	}
	return t.Streams.ServeRun(c, transports.RunStream{
		Caller: who, Key: req.Idempotency, Started: started,
		Projection: req.Dialect(), Background: req.Background(),
	})
}

// events answers GET events: the thread's log after a cursor, 204 if there is nothing to show and the thread is not busy.
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

// show writes the log. A stopping server asks its viewers to reconnect, at different times.
//
// A waiting viewer costs its stack, so calls that need a large stack are functions of their own.
func (v *viewer) show(ctx context.Context, w *stream.Writer) error {
	if err := v.greet(w); err != nil {
		return err
	}
	feed, err := v.streams.Feed(ctx, &v.View, agui.Seed)
	if err != nil {
		return err
	}
	defer feed.Cursor.Close()
	err = v.streams.Follow(ctx, w, feed)
	if errors.Is(err, runtime.ErrStopping) {
		return v.sendAway(w)
	}
	return err
}

// greet writes the text before the first event. A client that began at the log's end gets that position, so that it misses no
// event if it reconnects before it has got one. Other clients get no block without data, as some parsers take it for an
// event.
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
