package transports

import (
	"context"
	"errors"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
)

// health answers GET /healthz: the process is there.
func (s *Server) health(c *fiber.Ctx) error {
	return c.JSON(map[string]string{"status": "ok"})
}

// checkTimeout is how long the database and the plugins have to say that they are well.
const checkTimeout = 5 * time.Second

// ready answers GET /readyz: requests can be served, or why not.
func (s *Server) ready(c *fiber.Ctx) error {
	if s.stopping.Load() {
		return runtime.ErrStopping
	}
	ctx, cancel := context.WithTimeout(c.UserContext(), checkTimeout)
	defer cancel()
	err := s.cfg.Runtime.Ready(ctx)
	if err == nil {
		return c.JSON(map[string]string{"status": "ready"})
	}
	if _, ok := errors.AsType[*runtime.Error](err); !ok { // its text may hold addresses and names
		s.cfg.Log.Warn("not ready", "error", err)
		err = errNotReady
	}
	return err
}

var errNotReady = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "not_ready", Detail: "The database or a plugin is not well; the log says more",
}
