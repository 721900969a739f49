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
	return c.JSON(wire.NewMe(who, id.Projects, id.Scheme, id.Expires, t.Version, t.Runtime.Prices.Currency))
}

// views answers GET views: the lists of runs that the caller has saved.
func (t Transport) views(c *fiber.Ctx, who runtime.Caller) error {
	views, err := t.Runtime.Views.Get(c.UserContext(), who)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewViews(views))
}

// putViews answers PUT views, which replaces them.
func (t Transport) putViews(c *fiber.Ctx, who runtime.Caller) error {
	views, err := wire.DecodeViews(c.Request().Body())
	if err != nil {
		return err
	}
	if err := t.Runtime.Views.Put(c.UserContext(), who, views); err != nil {
		return err
	}
	return c.JSON(wire.NewViews(views))
}
