// Package monitor streams the events of all runs of a project: one stream with all events, one per agent, and one of AG-UI events
// with the agents' states. A client that reconnects within the runtime's window continues where it was; any other begins
// anew, and its stream says so. Read a thread's log to see one run as a whole.
package monitor

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

// Transport serves the monitors of a runtime's projects.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // the same as the server has
}

// Routes are the three views.
func (t Transport) Routes() []transports.Route {
	return []transports.Route{
		{Method: fiber.MethodGet, Path: "/api/v1/events", Known: t.events, Stream: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agents/stream", Known: t.agent, Stream: true},
		{Method: fiber.MethodGet, Path: "/api/v1/agui/events", Known: t.agui, Stream: true},
	}
}

func (t Transport) events(c *fiber.Ctx, who runtime.Caller) error {
	return t.serve(c, who, runtime.MonitorQuery{View: runtime.EventsView})
}

func (t Transport) agent(c *fiber.Ctx, who runtime.Caller) error {
	name := c.Query("agent")
	if name == "" {
		return errNoAgent
	}
	if _, ok := t.Runtime.Offered(who).Agent(name); !ok {
		return errAgentNotFound
	}
	return t.serve(c, who, runtime.MonitorQuery{View: runtime.EventsView, Agent: name})
}

func (t Transport) agui(c *fiber.Ctx, who runtime.Caller) error {
	return t.serve(c, who, runtime.MonitorQuery{View: runtime.AGUIView})
}

var (
	errNoAgent       = &runtime.Error{Kind: runtime.KindInvalid, Code: "invalid_request", Detail: "The parameter agent must name an agent"}
	errAgentNotFound = &runtime.Error{Kind: runtime.KindNotFound, Code: "not_found", Detail: "Agent not found"}
)

// serve answers c with the stream that q describes.
func (t Transport) serve(c *fiber.Ctx, who runtime.Caller, q runtime.MonitorQuery) error {
	q.After = wire.LastEventID(c)
	return t.Streams.Serve(c, (&viewer{t.Runtime, who, q}).show)
}

// viewer watches a project.
type viewer struct {
	rt  *runtime.Runtime
	who runtime.Caller
	q   runtime.MonitorQuery
}

// show writes events until the client disconnects or falls behind. A stopping server asks its viewers to reconnect, at different
// times.
func (v *viewer) show(ctx context.Context, w *stream.Writer) error {
	if v.q.View == runtime.EventsView {
		w.KeepAlive("event: keepalive\ndata: {}\n\n")
	}
	m := v.rt.Monitor(v.who, v.q)
	defer m.Close()
	err := v.greet(w, m)
	if err == nil {
		err = v.follow(ctx, w, m)
	}
	switch {
	case errors.Is(err, runtime.ErrStopping):
		_, _ = w.WriteString("retry: " + strconv.Itoa(1000+rand.N(4001)) + "\n")
		return w.Flush()
	case errors.Is(err, runtime.ErrLagged):
		w.CountCut()
		return nil // it reconnects, and its stream then says that it missed events
	}
	return err
}

// greet writes the beginning of the stream. A client that must begin anew gets its new Last-Event-ID in the same block that
// says so.
func (v *viewer) greet(w *stream.Writer, m *runtime.Monitor) error {
	_, _ = w.WriteString("retry: 1000\n")
	switch {
	case m.Resumed(): // it knows where it is
	case v.q.View == runtime.AGUIView:
		write(w, m.ID(), agui.TypeStateSnapshot, m.Snapshot())
	case v.q.After != "":
		write(w, m.ID(), "reset", []byte("{}"))
	default:
		v.stay(w, m)
	}
	return w.Flush()
}

// stay sends the client's current position when there is nothing to show, with an event that has no effect, as some parsers
// fail on a block without data.
func (v *viewer) stay(w *stream.Writer, m *runtime.Monitor) {
	if v.q.View == runtime.AGUIView {
		write(w, m.ID(), agui.TypeStateDelta, []byte(`{"type":"STATE_DELTA","delta":[]}`))
		return
	}
	write(w, m.ID(), "keepalive", []byte("{}"))
}

// many is a batch behind which more is likely to be there already.
const many = 128

func (v *viewer) follow(ctx context.Context, w *stream.Writer, m *runtime.Monitor) error {
	for n := 0; ; {
		if n < many {
			w.Pace(ctx)
		}
		notices, err := m.Next(ctx)
		if err != nil {
			return err
		}
		n = len(notices)
		for _, notice := range notices {
			write(w, notice.ID(), notice.Type(v.q.View), notice.JSON(v.q.View))
		}
		if n == 0 {
			v.stay(w, m)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

// write writes a frame with an event.
func write(w *stream.Writer, id string, t agui.Type, event []byte) {
	_, _ = w.WriteString("id: " + id + "\nevent: " + string(t) + "\ndata: ")
	_, _ = w.Write(event)
	_, _ = w.WriteString(agui.SSETail)
}
