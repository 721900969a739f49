package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// agents answers GET agents: the agents, and the tools that they may call, by name.
func (t Transport) agents(c *fiber.Ctx, who runtime.Caller) error {
	return c.JSON(wire.NewAgents(t.Runtime.Offered(who)))
}

// workflows answers GET workflows, by name.
func (t Transport) workflows(c *fiber.Ctx, who runtime.Caller) error {
	return c.JSON(wire.NewWorkflows(t.Runtime.Offered(who)))
}
