package transports

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/wire"
)

// limits answers GET limits: what the caller may have and ask for, and what is used of it now.
func (s *Server) limits(c *fiber.Ctx, who runtime.Caller) error {
	standing, err := s.cfg.Runtime.Standing(c.UserContext(), who)
	if err != nil {
		return err
	}
	meter := s.cfg.Streams.Rates
	user, project := meter.Used(who)
	return c.JSON(wire.NewLimits(&standing, meter.Config(), user, project, wire.SizeLimits{Body: s.cfg.Body, Input: s.cfg.Input}))
}
