package auth

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// JSON refuses, with 415, a request whose body is compressed or not JSON. Pages need a preflight to send JSON to another origin,
// and a compressed body could exceed the limit once inflated.
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
