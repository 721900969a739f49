// Package agui is the transport for AG-UI clients: they run an agent by its URL, join a thread, and read an agent's
// capabilities. It supports unmodified clients of both dialects.
package agui

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// Transport serves a runtime's agents and workflows to AG-UI clients. Its handlers return errors as they are:
// the server turns them into answers.
type Transport struct {
	Runtime *runtime.Runtime
	Streams *transports.Streams // the same as the server has

	// KeepEdits has messages that leave a thread before its end rewind nothing: they are added to it.
	KeepEdits bool
}

// Routes are AG-UI's and CopilotKit's.
func (t Transport) Routes() []transports.Route {
	return append(copilotKit{t}.routes(),
		transports.Route{Method: fiber.MethodPost, Path: "/api/v1/agui/:agent", Known: t.run, Input: true},
		transports.Route{Method: fiber.MethodPost, Path: "/api/v1/agui/:agent/connect", Known: t.connect, Input: true},
		transports.Route{Method: fiber.MethodGet, Path: "/api/v1/agui/:agent", Known: t.look, Stream: true},
		transports.Route{Method: fiber.MethodGet, Path: "/api/v1/agui/:agent/capabilities", Known: t.capabilities},
	)
}

// agentOf is the path's name of an agent or a workflow.
func agentOf(c *fiber.Ctx) string { return wire.Unescape(c.Params("agent")) }

// run answers POST {agent}: it starts a run, or continues a waiting one, and streams its events.
func (t Transport) run(c *fiber.Ctx, who runtime.Caller) error {
	return t.start(c, who, agentOf(c), c.Request().Body())
}

// start answers c with the events of the run that body, a RunAgentInput, requests of the agent or workflow.
func (t Transport) start(c *fiber.Ctx, who runtime.Caller, agent string, body []byte) error {
	req, who, err := t.decode(c, who, agent, body)
	if err != nil {
		return err
	}
	hash := req.BodyHash
	if whole := c.Request().Body(); len(whole) != len(body) { // body is only a part of the request
		hash = wire.Hash(whole)
	}
	req.Idempotency, err = transports.Idempotency(c, who, c.Path(), hash)
	if err != nil {
		return err
	}
	transports.Decoded(c)
	req.Edits = !t.KeepEdits && !req.KeepsEdits()
	if err := t.Streams.Reserve(c); err != nil {
		return err
	}
	if !req.Background() {
		t.Streams.Ownership.Own(who, &req.StartRequest)
	}
	started, err := t.Streams.Ownership.StartRun(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	return t.Streams.ServeRun(c, transports.RunStream{
		Caller: who, Key: req.Idempotency, Started: started,
		Projection: req.Dialect(), Background: req.Background(),
	})
}

// decode reads a request for the agent or workflow of that name, and its caller.
func (t Transport) decode(c *fiber.Ctx, who runtime.Caller, agent string, body []byte) (wire.RunRequest, runtime.Caller, error) {
	req, err := wire.DecodeRun(body)
	if err != nil {
		return req, runtime.Caller{}, err
	}
	if who, err = transports.InBody(c, who, req.ProjectID); err != nil {
		return req, runtime.Caller{}, err
	}
	if _, err := find(t.Runtime, who, agent); err != nil {
		return req, runtime.Caller{}, err
	}
	return req, who, req.Address(t.Runtime.Offered(who), agent)
}

// find returns the agent or workflow of that name that is offered to the caller. They share one namespace.
func find(rt *runtime.Runtime, who runtime.Caller, name string) (plugins.Plugin, error) {
	reg := rt.Offered(who)
	if a, ok := reg.Agent(name); ok {
		return a, nil
	}
	if w, ok := reg.Workflow(name); ok {
		return w, nil
	}
	return nil, rt.Unknown(who, "unknown_agent", "agent or workflow", name)
}
