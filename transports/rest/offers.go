package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
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

// inside reports whether a caller is one of those who look after the server, which everybody is without accounts.
func inside(c *fiber.Ctx, who runtime.Caller) bool {
	return who.Role() >= runtime.RoleOperator || auth.Of(c).Scheme == auth.SchemeNone
}
