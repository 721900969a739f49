package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// me answers GET me: the caller as the server sees it.
func (t Transport) me(c *fiber.Ctx, who runtime.Caller) error {
	id := auth.Of(c)
	return c.JSON(wire.NewMe(who, id.Projects, id.Scheme, id.Expires, t.Version, t.Runtime.Currency()))
}
