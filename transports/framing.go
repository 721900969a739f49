package transports

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// framed refuses a request of which another server on its way may have read something else: where its body ends, and so what follows
// for part of it, what its headers are, or from where it comes. Only the raw headers tell: fasthttp has settled on one reading.
func framed(h *fasthttp.RequestHeader) error {
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
