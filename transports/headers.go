package transports

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
)

// secure sets the headers that keep browsers from sniffing an answer's type, framing it, or caching it, and the request's id.
// Routes may override them. Strict-Transport-Security is left to the program that terminates TLS for a name.
func secure(c *fiber.Ctx) {
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set(fiber.HeaderXRequestID, requestID(c))
}

// requestID is the request's id in logs and answers.
func requestID(c *fiber.Ctx) string {
	if id := auth.PeerOf(c).Request; id != "" {
		return id
	}
	return uuid.NewString() // the request failed before it got an id
}

// secured reports whether a request came in over TLS, here or at a program's own server.
func secured(c *fiber.Ctx) bool {
	if v, ok := below(c).(*visit); ok {
		return v.req.TLS != nil
	}
	if own := stream.Own(c.Context().Conn()); own != nil {
		return own.TLS() != nil
	}
	return c.Context().IsTLS()
}
