package rest

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// part is a request for a page of a run's parts.
type part struct {
	who   runtime.Caller
	run   runtime.Run
	list  wire.List
	after int64
	limit int
}

// part reads a request for a page of the run's list of that kind.
func (t Transport) part(c *fiber.Ctx, who runtime.Caller, kind string) (part, error) {
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, runID(c))
	if err != nil {
		return part{}, err
	}
	p := part{who: who, run: run}
	if p.list, err = wire.NewList(c.UserContext(), t.Runtime.Secrets, kind, who, run.Key); err != nil {
		return p, err
	}
	if p.limit, err = wire.Limit(c.Query("limit")); err != nil {
		return p, err
	}
	p.after, err = p.list.Position(c.Query("cursor"))
	return p, err
}

// steps answers GET steps, of one node if the query names one, by number.
func (t Transport) steps(c *fiber.Ctx, who runtime.Caller) error {
	node := strings.Clone(c.Query("nodeId"))
	p, err := t.part(c, who, "steps "+node)
	if err != nil {
		return err
	}
	steps, err := t.Runtime.Runs.Steps(c.UserContext(), p.who, runID(c), node, int(p.after), p.limit)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewPage(p.list, steps,
		func(s *runtime.Step) wire.Step { return wire.NewStep(p.run.ID, s) },
		func(s *runtime.Step) int64 { return int64(s.Number) }))
}

// nodes answers GET node-states.
func (t Transport) nodes(c *fiber.Ctx, who runtime.Caller) error {
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	nodes, err := t.Runtime.Runs.Nodes(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	answer := wire.Items[wire.Node]{Items: make([]wire.Node, len(nodes))}
	for i := range nodes {
		answer.Items[i] = wire.NewNode(run.ID, &nodes[i])
	}
	return c.JSON(answer)
}

// messages answers GET messages, in the order they came.
func (t Transport) messages(c *fiber.Ctx, who runtime.Caller) error {
	p, err := t.part(c, who, "messages")
	if err != nil {
		return err
	}
	msgs, err := t.Runtime.Runs.Messages(c.UserContext(), p.who, runID(c), p.after, p.limit)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewPage(p.list, msgs,
		func(m *runtime.Message) wire.Message { return wire.NewMessage(p.run.ID, m) },
		func(m *runtime.Message) int64 { return m.Key }))
}

// modelCalls answers GET model-calls, in the order they began.
func (t Transport) modelCalls(c *fiber.Ctx, who runtime.Caller) error {
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, runID(c))
	if err != nil {
		return err
	}
	list, err := wire.NewList(c.UserContext(), t.Runtime.Secrets, "model-calls", who, run.Key)
	if err != nil {
		return err
	}
	limit, err := wire.Limit(c.Query("limit"))
	if err != nil {
		return err
	}
	after, err := list.Name(c.Query("cursor"))
	if err != nil {
		return err
	}
	calls, err := t.Runtime.Runs.ModelCalls(c.UserContext(), who, runID(c), after, limit)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewModelCalls(list, calls, t.Runtime.Prices.Sum))
}

// modelCall answers GET of a call of a model.
func (t Transport) modelCall(c *fiber.Ctx, who runtime.Caller) error {
	call, sent, answer, err := t.Runtime.Runs.ModelCall(c.UserContext(), who, runID(c), wire.Unescape(c.Params("callId")))
	if err != nil {
		return err
	}
	whole, err := wire.NewWholeModelCall(&call, sent, answer, t.Runtime.Prices.Sum)
	if err != nil {
		return err
	}
	return c.JSON(whole)
}

// append answers POST messages.
func (t Transport) append(c *fiber.Ctx, who runtime.Caller) error {
	req, err := wire.DecodeAppend(c.Request().Body())
	if err != nil {
		return err
	}
	if req.Idempotency, err = key(c, who); err != nil {
		return err
	}
	transports.Decoded(c)
	run, err := t.Runtime.Runs.Get(c.UserContext(), who, runID(c)) // the answer has its first name
	if err != nil {
		return err
	}
	msg, err := t.Runtime.Append(c.UserContext(), who, runID(c), req)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusCreated).JSON(wire.NewMessage(run.ID, &msg))
}

// event answers POST of an event.
func (t Transport) event(c *fiber.Ctx, who runtime.Caller) (err error) {
	req := runtime.EventRequest{Name: wire.Unescape(c.Params("name"))}
	if req.Payload, err = wire.DecodePayload(c.Request().Body()); err != nil {
		return err
	}
	if req.Idempotency, err = key(c, who); err != nil {
		return err
	}
	transports.Decoded(c)
	delivered, err := t.Runtime.SendEvent(c.UserContext(), who, runID(c), req)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.Delivered{Delivered: delivered})
}
