package transports_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

// A stopping server also ends carried requests when it may not wait any longer.
func TestAServerInAHurryLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	s := serveWith(t, transports.Config{}, transports.StreamConfig{}, mount(func(r *table) {
		r.routes = append(r.routes, transports.Route{
			Method: fiber.MethodPost, Path: "/files", Raw: 1 << 10,
			Known: func(c *fiber.Ctx, _ runtime.Caller) error {
				ctx := c.UserContext()
				close(begun)
				<-ctx.Done() // as a place of files does that says nothing
				ended <- context.Cause(ctx)
				return context.Cause(ctx)
			},
		})
	}))
	s.dial("POST /files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
	<-begun
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Web.Shutdown(now); err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, runtime.ErrStopping) {
		t.Errorf("it ends with %v", err)
	}
}
