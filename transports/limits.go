package transports

import (
	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/wire"
)

// limits answers GET limits: the limits of the caller, or of the user that an admin names, and their current use.
func (s *Server) limits(c *fiber.Ctx, who runtime.Caller) error {
	if user := c.Query("user"); user != "" {
		var err error
		if who, err = who.InSteadOf(user, runtime.RoleAdmin); err != nil {
			return err
		}
	}
	standing, err := s.cfg.Runtime.Standing(c.UserContext(), who)
	if err != nil {
		return err
	}
	meter := s.cfg.Streams.Rates
	user, project := meter.Used(who)
	of := wire.ServerSettings{
		Sizes: wire.SizeLimits{Body: s.cfg.Body, Input: s.cfg.Input, Socket: s.cfg.Input, Head: s.cfg.Header}, InFlight: s.cfg.Streams.Budget.Total(), Guesses: s.guesses.PerMinute(),
		Grace: s.cfg.Streams.Ownership.Grace(), Head: s.cfg.HeadTimeout, Body: s.cfg.ReadTimeout, Answer: s.cfg.WriteTimeout, Idle: s.cfg.IdleTimeout,
		Write: s.cfg.Streams.WriteTimeout(), Ping: s.cfg.Streams.Ping(),
	}
	listens := s.visits.conns.Config()
	of.Rate, of.Stall = listens.Rate, listens.Slack
	s.mu.Lock()
	if s.ln != nil {
		of.Conns, of.PerPeer = listens.Conns, listens.PerPeer
	}
	s.mu.Unlock()
	of.Held = s.cfg.Streams.Budget.UsedBy(rates.OwnerOf(who))
	return c.JSON(wire.NewLimits(&standing, meter.Config(), user, project, &of))
}
