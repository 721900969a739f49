package rest

import (
	"bytes"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// usage answers GET usage, as CSV if the client prefers that.
func (t Transport) usage(c *fiber.Ctx, who runtime.Caller) error {
	f, err := wire.UsageQuery(c.Query("by"), c.Query("since"), c.Query("until"), time.Now())
	if err != nil {
		return err
	}
	sums, err := t.Runtime.Usage(c.UserContext(), who, f)
	if err != nil {
		return err
	}
	shown := wire.NewUsage(&f, sums, t.Runtime.Prices.Currency)
	c.Vary(fiber.HeaderAccept)
	if c.Accepts(fiber.MIMEApplicationJSON, "text/csv") != "text/csv" {
		return c.JSON(shown)
	}
	var text bytes.Buffer
	if err := shown.WriteCSV(&text); err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, "text/csv; charset=utf-8")
	return c.Send(text.Bytes())
}

// budgets answers GET budgets.
func (t Transport) budgets(c *fiber.Ctx, who runtime.Caller) error {
	list, err := t.Runtime.Budgets(who)
	if err != nil {
		return err
	}
	shown := make([]wire.Budget, len(list))
	for i := range list {
		shown[i] = wire.NewBudget(&list[i])
	}
	return c.JSON(fiber.Map{"items": shown})
}
