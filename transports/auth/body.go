package auth

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Body refuses, with 415, a request whose body is compressed or not JSON. A page cannot send JSON to another
// origin without asking first, and what inflates would pass the limit on a body's size. A request without a body
// needs no Content-Type.
func Body(c *fiber.Ctx) error {
	if len(c.Request().Body()) == 0 {
		return c.Next()
	}
	if enc := c.Get(fiber.HeaderContentEncoding); enc != "" && !strings.EqualFold(enc, "identity") {
		return errEncoding
	}
	if kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType)); err != nil || kind != fiber.MIMEApplicationJSON {
		return errContentType
	}
	return c.Next()
}

// The refusals of Body.
var (
	errEncoding    = fiber.NewError(fiber.StatusUnsupportedMediaType, "A request's body must not be compressed")
	errContentType = fiber.NewError(fiber.StatusUnsupportedMediaType, "A request's body must have the Content-Type application/json")
)
