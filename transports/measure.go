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

// measure makes a request part of the trace in its header traceparent, reports it to Answered, and logs foreign hosts and
// origins, which the operator may have to configure.
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
	if route == "/" { // no route has matched, or the request did not get that far
		route = ""
	}
	s.cfg.Answered(c.Method(), route, status, time.Since(began))
	return err
}

// withinKey is the local of the function that puts a context inside the client's trace.
type withinKey struct{}

// refusals logs refusals one by one while they are few: strangers can cause them at any rate.
type refusals struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	told  int // since then
	kept  int // not logged
}

const (
	mostRefusals = 20 // logged
	refusalsPer  = time.Minute
)

// tell logs, through say, a refused value of a header.
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

// discreet logs fasthttp's errors of requests that it cannot parse. It drops their text, which quotes tickets and tokens, and
// logs only the kind.
type discreet struct{ log *slog.Logger }

// Printf logs the kinds of the errors in args.
func (d discreet) Printf(_ string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			d.log.Debug("a request could not be read", "kind", fmt.Sprintf("%T", err))
		}
	}
}
