package ws

import (
	"context"

	"github.com/gofiber/fiber/v2"
)

// Panicking has sockets on which the server panics: at once, and at the first message.
type Panicking struct{ Transport }

// Mount adds the routes to r.
func (p Panicking) Mount(r fiber.Router) {
	r.Get("/panic/talk", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(context.Context, *socket) error { panic("talk") }})
	})
	r.Get("/panic/batch", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(_ context.Context, s *socket) error {
			return s.w.Batch(func() {
				_, _ = s.w.Write(textFrame([]byte("half")))
				panic("batch")
			})
		}})
	})
	r.Get("/panic/guarded", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{talk: func(ctx context.Context, s *socket) error {
			p.Streams.Guard(func() { // as a subscription
				_ = s.w.Batch(func() {
					_, _ = s.w.Write(textFrame([]byte("half")))
					panic("guarded")
				})
			})
			<-ctx.Done()
			return context.Cause(ctx)
		}})
	})
	r.Get("/panic/take", func(c *fiber.Ctx) error {
		return p.hold(c, conversation{
			take: func(context.Context, *socket, int, []byte) { panic("take") },
			talk: func(ctx context.Context, _ *socket) error { <-ctx.Done(); return context.Cause(ctx) },
		})
	})
}
