package transports

import (
	"github.com/gofiber/fiber/v2"
	"github.com/google/uuid"
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

type requestKey struct{}

// requestID is what a request is called in logs and in answers: what somebody before this server calls it, or a name of its own.
func requestID(c *fiber.Ctx) string {
	if id, ok := c.Locals(requestKey{}).(string); ok {
		return id
	}
	id := c.Get(fiber.HeaderXRequestID)
	if !plainID(id) {
		id = uuid.NewString()
	}
	c.Locals(requestKey{}, id)
	return id
}

// plainID reports whether id is one that may stand in a log.
func plainID(id string) bool {
	for _, b := range []byte(id) {
		if (b < '0' || b > '9') && (b < 'A' || b > 'Z') && (b < 'a' || b > 'z') && b != '-' && b != '_' && b != '.' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}
