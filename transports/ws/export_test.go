package ws

import (
	"context"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

// Panicking has sockets on which the server panics: at once, and at the first message.
type Panicking struct{ Transport }

// Routes are those sockets.
func (p Panicking) Routes() (all []transports.Route) {
	get := func(path string, h fiber.Handler) {
		all = append(all, transports.Route{Method: fiber.MethodGet, Path: path, Known: func(c *fiber.Ctx, _ runtime.Caller) error { return h(c) }})
	}
	get("/panic/talk", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(context.Context, *socket) error { panic("talk") }})
	})
	get("/panic/batch", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(_ context.Context, s *socket) error {
			return s.w.Batch(func() {
				_, _ = s.w.Write(encoded("half"))
				panic("batch")
			})
		}})
	})
	get("/panic/guarded", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(ctx context.Context, s *socket) error {
			p.Streams.Guard(func() { // as a subscription
				_ = s.w.Batch(func() {
					_, _ = s.w.Write(encoded("half"))
					panic("guarded")
				})
			})
			<-ctx.Done()
			return context.Cause(ctx)
		}})
	})
	get("/panic/take", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{
			take: func(context.Context, *socket, message) bool { panic("take") },
			talk: func(ctx context.Context, _ *socket) error { <-ctx.Done(); return context.Cause(ctx) },
		})
	})
	return all
}

// InTurn is a subscription's cursor, which has records while it holds turn.
func InTurn(cur *runtime.Cursor, turn chan struct{}) interface {
	Next(ctx context.Context) ([]*runtime.Record, error)
	Waits() bool
} {
	return &reader{cur, turn, false}
}
