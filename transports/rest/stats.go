package rest

import (
	"cmp"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// stats answers GET stats: the project's latest statistics and its current work.
func (t Transport) stats(c *fiber.Ctx, who runtime.Caller) error {
	s, err := t.Runtime.Statistics(c.UserContext(), who, runtime.Window(cmp.Or(c.Query("window"), string(runtime.LastHour))))
	if err != nil {
		return err
	}
	return c.JSON(wire.NewStats(&s, t.Version, t.Runtime.Prices.Sum))
}
