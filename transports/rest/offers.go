package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// agents answers GET agents: the agents, the tools that they may call, and the servers that have some of them, by name.
func (t Transport) agents(c *fiber.Ctx, who runtime.Caller) error {
	return c.JSON(wire.NewCatalog(t.Runtime.Offered(who), inside(c, who)))
}

// workflows answers GET workflows, by name.
func (t Transport) workflows(c *fiber.Ctx, who runtime.Caller) error {
	return c.JSON(wire.NewCatalogWorkflows(t.Runtime.Offered(who), inside(c, who)))
}

// startTool answers POST of a run that is one call of a tool. The caller chooses arguments that no agent might choose, so
// this is for operators.
func (t Transport) startTool(c *fiber.Ctx, who runtime.Caller) error {
	req, err := wire.DecodeToolRun(c.Request().Body())
	if err != nil {
		return err
	}
	if who, err = transports.InBody(c, who, req.ProjectID); err != nil {
		return err
	}
	if !inside(c, who) {
		return errTools
	}
	req.Tool = wire.Unescape(c.Params("tool"))
	if req.Idempotency, err = transports.Idempotency(c, who, c.Path(), req.BodyHash); err != nil {
		return err
	}
	transports.Decoded(c)
	started, err := t.detached(c.UserContext(), who, req.StartRequest)
	if err != nil {
		return err
	}
	return c.Status(fiber.StatusAccepted).JSON(wire.NewStarted(started))
}

var errTools = &runtime.Error{Kind: runtime.KindForbidden, Code: "forbidden", Detail: "Your role may not call tools by themselves"}

// inside reports whether a caller is an operator of the server, as every caller is without accounts.
func inside(c *fiber.Ctx, who runtime.Caller) bool {
	return who.Role() >= runtime.RoleOperator || auth.Of(c).Scheme == auth.SchemeNone
}
