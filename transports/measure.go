package transports

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/auth"
)

// measure puts a request inside the operation of its client that its header traceparent names, tells Answered of it, and
// logs foreign hosts and origins, which whoever runs the server may have to name in its settings.
func (s *Server) measure(c *fiber.Ctx) error {
	if parent := c.Get("traceparent"); s.cfg.Traced != nil && parent != "" {
		within := func(ctx context.Context) context.Context { return s.cfg.Traced(ctx, parent) }
		c.SetUserContext(within(c.UserContext()))
		c.Locals(withinKey{}, within)
	}
	began := time.Now()
	err := c.Next()
	switch {
	case errors.Is(err, auth.ErrHost):
		s.refused.tell(s.cfg.Log.Info, "a foreign Host is refused", "host", string(c.Request().Host()))
	case errors.Is(err, auth.ErrOrigin):
		s.refused.tell(s.cfg.Log.Info, "a foreign Origin is refused", "origin", auth.Shown(c.Get(fiber.HeaderOrigin)))
	}
	if s.cfg.Answered == nil {
		return err
	}
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

// withinKey is where a request has what puts a context inside its client's operation.
type withinKey struct{}

// refusals logs what was refused, each for itself while they are few: strangers can send them as fast as they like.
type refusals struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	told  int // since then
	kept  int // and not told
}

const (
	mostRefusals = 20 // told
	refusalsPer  = time.Minute
)

// tell logs with say that a value of a header is refused.
func (r *refusals) tell(say func(msg string, args ...any), msg, header, value string) {
	r.mu.Lock()
	if now := time.Now(); now.Sub(r.since) > refusalsPer {
		r.since, r.told = now, 0
	}
	r.told++
	if r.told > mostRefusals {
		r.kept++
		r.mu.Unlock()
		return
	}
	kept := r.kept
	r.kept = 0
	r.mu.Unlock()
	args := []any{header, value[:min(len(value), 200)]}
	if kept > 0 {
		args = append(args, "more", kept)
	}
	say(msg, args...)
}

// discreet is what fasthttp tells of connections whose requests it cannot read. It quotes them, with tickets and tokens: only
// the kind of the error is kept.
type discreet struct{ log *slog.Logger }

// Printf logs the kinds of the errors in args.
func (d discreet) Printf(_ string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			d.log.Debug("a request could not be read", "kind", fmt.Sprintf("%T", err))
		}
	}
}
