package rest

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// questions answers GET interrupts: the open questions of the runs that the caller may see, oldest first.
func (t Transport) questions(c *fiber.Ctx, who runtime.Caller) error {
	limit, err := wire.Limit(c.Query("limit"))
	if err != nil {
		return err
	}
	list, err := wire.NewList(c.UserContext(), t.Runtime.Secrets, "interrupts", who, nil)
	if err != nil {
		return err
	}
	after, err := list.Position(c.Query("cursor"))
	if err != nil {
		return err
	}
	count, err := wire.Count(c.Query("count"))
	if err != nil {
		return err
	}
	page, err := t.Runtime.Runs.Questions(c.UserContext(), who, runtime.QuestionFilter{AfterKey: after, Limit: limit, Count: count})
	if err != nil {
		return err
	}
	return c.JSON(wire.NewPage(list, page, wire.NewQuestion, func(q *runtime.Asked) int64 { return q.Key }))
}
