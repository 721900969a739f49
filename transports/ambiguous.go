package transports

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// unambiguous refuses a request that a proxy may have parsed differently: the end of its body, its headers, or its origin. It checks
// the raw headers, as fasthttp has already chosen one interpretation.
func unambiguous(h *fasthttp.RequestHeader) error {
	length, encoding, origins := false, false, 0
	for line := range bytes.Lines(h.RawHeaders()) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case line[0] == ' ' || line[0] == '\t':
			return errFolded
		case bytes.ContainsAny(name, " \t"):
			return errHeaderName
		case bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength)):
			length = true
		case bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding)):
			if encoding = true; !bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) || string(h.Protocol()) == "HTTP/1.0" {
				return errEncoding
			}
		case bytes.EqualFold(name, []byte(fasthttp.HeaderOrigin)):
			origins++
		}
	}
	switch {
	case length && encoding:
		return errTwoLengths
	case origins > 1:
		return errOrigins
	}
	return nil
}

var (
	errHeaderName = fiber.NewError(fiber.StatusBadRequest, "A header's name may have no spaces")
	errEncoding   = fiber.NewError(fiber.StatusBadRequest, "Transfer-Encoding may be chunked alone, and not in HTTP/1.0")
	errFolded     = fiber.NewError(fiber.StatusBadRequest, "A header has one line")
	errOrigins    = fiber.NewError(fiber.StatusBadRequest, "A request may come from one Origin")
	errTwoLengths = fiber.NewError(fiber.StatusBadRequest, "A request must have Content-Length or Transfer-Encoding, not both")
)
