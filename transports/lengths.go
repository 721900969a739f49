package transports

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// twoLengths reports whether a request says twice how long its body is. Another server on its way may have taken the other
// for it, and what follows here for part of it. Only the raw headers tell: fasthttp has settled on one.
func twoLengths(h *fasthttp.RequestHeader) bool {
	length, encoding := false, false
	for line := range bytes.Lines(h.RawHeaders()) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		name = bytes.TrimSpace(name)
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
		encoding = encoding || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
	}
	return length && encoding
}

var errTwoLengths = fiber.NewError(fiber.StatusBadRequest, "A request must have Content-Length or Transfer-Encoding, not both")
