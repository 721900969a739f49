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

// checkTimeout limits the checks of the database and the plugins.
const checkTimeout = 5 * time.Second

// ready answers GET /readyz with the readiness or its reasons. Concurrent requests share one check, and none waits for a check
// that does not return, as anybody may send them.
func (s *Server) ready(c *fiber.Ctx) error {
	if s.stopping.Load() {
		return runtime.ErrStopping
	}
	ctx, cancel := context.WithTimeout(c.UserContext(), checkTimeout)
	defer cancel()
	checked := s.checks.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
		defer cancel()
		return nil, s.cfg.Runtime.Ready(ctx)
	})
	var err error
	select {
	case check := <-checked:
		err = check.Err
	case <-ctx.Done():
		err = errSilent
	}
	if err == nil {
		return c.JSON(map[string]string{"status": "ready"})
	}
	if _, ok := errors.AsType[*runtime.Error](err); !ok { // its text may hold addresses and names
		s.unready.tell(s.cfg.Log.Warn, "not ready", "error", err.Error())
		err = errNotReady
	}
	return err
}

var errSilent = errors.New("the database or a plugin has not answered in time")

var errNotReady = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "not_ready", Detail: "The database or a plugin is not well; the log says more",
}
