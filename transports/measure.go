package transports

import (
	"time"

	"github.com/gofiber/fiber/v2"
)

// measure puts a request inside the operation of its client that its header traceparent names, and tells Answered of it.
func (s *Server) measure(c *fiber.Ctx) error {
	if parent := c.Get("traceparent"); s.cfg.Traced != nil && parent != "" {
		c.SetUserContext(s.cfg.Traced(c.UserContext(), parent))
	}
	if s.cfg.Answered == nil {
		return c.Next()
	}
	began := time.Now()
	err := c.Next()
	status := c.Response().StatusCode()
	if err != nil {
		status, _, _ = Status(err)
	}
	route := c.Route().Path
	if route == "/" { // of what stands before all routes: none has matched, or the request did not get so far
		route = ""
	}
	s.cfg.Answered(c.Method(), route, status, time.Since(began))
	return err
}
