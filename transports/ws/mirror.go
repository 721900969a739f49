package ws

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/fanout"
)

// The subprotocols of clients that read bare AG-UI events, of dialect 0.0 and 1.0.
const (
	protocolAGUI0 = "agui"
	protocolAGUI1 = "agui.1"
)

// quiet limits the client's messages, which are ignored.
const quiet = 1 << 10

// mirror answers GET of a thread's socket: its log from a cursor on, as events show it.
func (t Transport) mirror(c *fiber.Ctx, _ runtime.Caller) error {
	v, refusal := t.view(c)
	projection, framing := agui.Seed, numbered
	name := protocol(c, protocolAGUI0, protocolAGUI1)
	switch name {
	case protocolAGUI0:
		projection, framing = agui.AGUI0, bare
	case protocolAGUI1:
		projection, framing = agui.AGUI1, bare
	}
	return t.hold(c, conversation{protocol: name, limit: quiet, talk: func(ctx context.Context, s *socket) error {
		if refusal != nil || v.Ended {
			return refusal
		}
		return t.watch(ctx, s, v, projection, framing)
	}})
}

// view returns the socket's view, in the project of the query.
func (t Transport) view(c *fiber.Ctx) (*transports.View, error) {
	who, err := auth.ForProject(c, c.Query("projectId"))
	if err != nil {
		return nil, err
	}
	return t.Streams.View(c, who)
}

// watch shows a view until it ends. It is a function of its own for the sake of the stack on which it waits.
func (t Transport) watch(ctx context.Context, s *socket, v *transports.View, p agui.Projection, f fanout.Framing) error {
	feed, err := t.Streams.Feed(ctx, v, p)
	if err != nil {
		return err
	}
	defer feed.Cursor.Close()
	feed.Framing = f
	return t.Streams.Follow(ctx, s.w, feed)
}
