package ws

import (
	"bytes"
	"context"
	"time"

	"github.com/fasthttp/websocket"
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// introduction is the time for the first message.
const introduction = time.Minute

// asking is a socket with one run.
type asking struct {
	t       Transport
	who     runtime.Caller
	project string // that the query names
	agent   string
	path    string
	keys    [][]byte // the request's Idempotency-Key
	dialect string   // the subprotocol, which overrides the input's protocolVersion
	in      chan message
}

// run answers GET of an agent's socket: the first message is a RunAgentInput, and the socket shows the run's events. The socket owns
// the run.
func (t Transport) run(c *fiber.Ctx, _ runtime.Caller) error {
	project := c.Query("projectId")
	dialect := protocol(c, protocolAGUI0, protocolAGUI1)
	who, err := auth.ForProject(c, project)
	if err != nil {
		return t.refuse(c, dialect, err)
	}
	a := &asking{
		t: t, who: who, project: project, agent: wire.Unescape(c.Params("agent")), path: c.Path(),
		dialect: dialect, in: make(chan message, 1),
	}
	for _, key := range c.Request().Header.PeekAll("Idempotency-Key") {
		a.keys = append(a.keys, bytes.Clone(key))
	}
	return t.hold(c, conversation{protocol: a.dialect, limit: t.Input, take: a.take, talk: a.talk})
}

// take receives the first message. Later ones are ignored.
func (a *asking) take(_ context.Context, s *socket, msg message) bool {
	select {
	case a.in <- msg:
		s.conn.SetReadLimit(quiet)
		return true
	default:
		return false
	}
}

func (a *asking) talk(ctx context.Context, s *socket) error {
	r, err := a.start(ctx)
	if err != nil {
		return err
	}
	if err := a.t.Streams.ShowRun(ctx, s.w, r); err != nil {
		return err
	}
	return context.Cause(ctx) // of a stopping server, whose last event ShowRun has written
}

// start waits for the input and starts its run.
func (a *asking) start(ctx context.Context) (*transports.RunStream, error) {
	var msg message
	late := time.NewTimer(introduction)
	defer late.Stop()
	select {
	case msg = <-a.in:
	case <-late.C:
		return nil, fiber.ErrRequestTimeout
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer msg.held.Release()
	if msg.kind != websocket.TextMessage {
		return nil, errBinary
	}
	req, err := wire.DecodeRun(msg.body)
	if err != nil {
		return nil, err
	}
	if err := inProject(a.who, a.project, req.ProjectID); err != nil {
		return nil, err
	}
	if err := req.Address(a.t.Runtime.Offered(a.who), a.agent); err != nil {
		return nil, err
	}
	if req.Idempotency, err = wire.Idempotency(a.who, fiber.MethodGet, a.path, a.keys, req.BodyHash); err != nil {
		return nil, err
	}
	req.Edits = !a.t.KeepEdits && !req.KeepsEdits()
	if !req.Background() {
		a.t.Streams.Ownership.Own(a.who, &req.StartRequest)
	}
	started, err := a.t.Streams.Ownership.StartRun(context.WithoutCancel(ctx), a.who, req.StartRequest)
	if err != nil {
		return nil, err
	}
	r := &transports.RunStream{
		Caller: a.who, Key: req.Idempotency, Started: started,
		Projection: req.Dialect(), Framing: bare, Background: req.Background(),
	}
	switch a.dialect {
	case protocolAGUI0:
		r.Projection = agui.AGUI0
	case protocolAGUI1:
		r.Projection = agui.AGUI1
	}
	return r, nil
}

var errBinary = &runtime.Error{
	Kind: runtime.KindInvalid, Code: "invalid_request", Detail: "A message must be a text frame that holds a JSON object",
}

// inProject checks the project in a message: it must be the query's, if that names one.
func inProject(who runtime.Caller, query, body string) error {
	if query == "" && body != "" && body != who.Project() {
		return runtime.ErrProjectNotFound
	}
	return nil
}
