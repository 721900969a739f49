package rest

import (
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/wire"
)

// The limits of one look at a project's retention.
const (
	retentionRuns = 1000
	retentionTime = 2 * time.Second
)

// retention answers GET retention: the project's retention times, and the data that is due for deletion.
func (t Transport) retention(c *fiber.Ctx, who runtime.Caller) error {
	switch {
	case t.Retention == nil || t.Retainer == nil:
		return errNoRetention
	case who.Role() < runtime.RoleViewer && auth.Of(c).Scheme != auth.SchemeNone:
		return errRetention
	}
	ctx, cancel := context.WithTimeout(c.UserContext(), retentionTime)
	defer cancel()
	due, whole, err := retention.DueIn(ctx, t.Retainer, *t.Retention, who.Project(), time.Now(), retentionRuns)
	if err != nil {
		return err
	}
	return c.JSON(wire.NewRetention(t.Retention.Of(who.Project()), &due, whole))
}

var (
	errNoRetention = &runtime.Error{Kind: runtime.KindNotFound, Code: "not_found", Detail: "This server does not tell how long things are kept"}
	errRetention   = &runtime.Error{Kind: runtime.KindForbidden, Code: "forbidden", Detail: "Your role may not do this: it is for those who see all of the project"}
)
