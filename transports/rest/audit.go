package rest

import (
	"fmt"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// audit answers GET audit: who has asked for what in the project, latest first.
func (t Transport) audit(c *fiber.Ctx, who runtime.Caller) error {
	f := runtime.AuditFilter{Actor: c.Query("actor"), Action: c.Query("action")}
	var err error
	if since := c.Query("since"); since != "" {
		if f.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return wire.Refuse("invalid_request", "since must be a time like 2024-01-15T10:00:00Z")
		}
	}
	list := wire.List(fmt.Sprintf("audit %q %q %q %d", who.Project(), f.Actor, f.Action, f.Since.UnixMilli()))
	if f.Limit, err = wire.Limit(c.Query("limit")); err != nil {
		return err
	}
	if f.BeforeKey, err = list.Position(c.Query("cursor")); err != nil {
		return err
	}
	page, err := t.Runtime.AuditOf(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewPage(list, page, wire.NewAudited, func(a *runtime.Audit) int64 { return a.Key }))
}

// deleteUser answers DELETE of all that a user has.
func (t Transport) deleteUser(c *fiber.Ctx, who runtime.Caller) error {
	if err := t.Runtime.DeleteUser(c.UserContext(), who, wire.Unescape(c.Params("user"))); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}
