package auth

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// JSON refuses, with 415, a request whose body is compressed or not JSON. A page cannot send JSON to another
// origin without asking first, and what inflates would pass the limit on a body's size.
func JSON(c *fiber.Ctx) error {
	if enc := c.Get(fiber.HeaderContentEncoding); enc != "" && !strings.EqualFold(enc, "identity") {
		return errEncoding
	}
	if kind, _, err := mime.ParseMediaType(c.Get(fiber.HeaderContentType)); err != nil || kind != fiber.MIMEApplicationJSON {
		return errContentType
	}
	return nil
}

// The refusals of JSON.
var (
	errEncoding    = fiber.NewError(fiber.StatusUnsupportedMediaType, "A request's body must not be compressed")
	errContentType = fiber.NewError(fiber.StatusUnsupportedMediaType, "A request's body must have the Content-Type application/json")
)
