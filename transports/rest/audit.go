package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// audit answers GET audit: the changes in the project with their callers, latest first.
func (t Transport) audit(c *fiber.Ctx, who runtime.Caller) error {
	f := runtime.AuditFilter{Actor: c.Query("actor"), Action: c.Query("action"), User: c.Query("user"), Run: c.Query("run")}
	var err error
	if f.Since, err = wire.Moment("since", c.Query("since")); err != nil {
		return err
	}
	if f.Until, err = wire.Moment("until", c.Query("until")); err != nil {
		return err
	}
	list, err := wire.NewList(c.UserContext(), t.Runtime.Secrets, "audit", who, f)
	if err != nil {
		return err
	}
	if f.Limit, err = wire.Limit(c.Query("limit")); err != nil {
		return err
	}
	if err = wire.AuditAfter(list, c.Query("cursor"), &f); err != nil {
		return err
	}
	if f.Count, err = wire.Count(c.Query("count")); err != nil {
		return err
	}
	page, err := t.Runtime.AuditOf(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewAudit(list, page))
}

// deleteUser answers DELETE of all that a user has.
func (t Transport) deleteUser(c *fiber.Ctx, who runtime.Caller) error {
	if err := t.Runtime.DeleteUser(c.UserContext(), who, wire.Unescape(c.Params("user"))); err != nil {
		return err
	}
	return c.SendStatus(fiber.StatusNoContent)
}
