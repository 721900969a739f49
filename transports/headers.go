package transports

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"

	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
)

// secure gives an answer, whatever it will be, the headers that keep browsers from taking it for something else, showing it inside
// another's page, or keeping it; and the request's id. Routes may say otherwise. Strict-Transport-Security is for whoever ends TLS
// for a name to say.
func secure(c *fiber.Ctx) {
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderReferrerPolicy, "no-referrer")
	c.Set(fiber.HeaderXFrameOptions, "DENY")
	c.Set("Cross-Origin-Resource-Policy", "same-origin")
	c.Set(fiber.HeaderXRequestID, requestID(c))
}

// requestID is what a request is called in logs and in answers.
func requestID(c *fiber.Ctx) string {
	if id := auth.PeerOf(c).Request; id != "" {
		return id
	}
	return uuid.NewString() // it failed before anybody had named it
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
