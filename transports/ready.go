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

// ready answers GET /readyz: requests can be served, or why not. All who ask at a time have one answer, and nobody waits for what is
// silent: whoever likes may ask.
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
