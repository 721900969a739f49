package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// servers answers GET servers: the living servers of the database, and how they differ.
func (t Transport) servers(c *fiber.Ctx, who runtime.Caller) error {
	list, err := t.Runtime.Servers(who)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewServers(list))
}
