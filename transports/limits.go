package transports

import (
	"bytes"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// limit says, once a request's headers are here, how large its body may be: a larger one is refused before
// it is read.
func (s *Server) limit(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	uri := h.RequestURI()
	if i := bytes.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	limit := s.cfg.Body
	if h.IsPost() && takesInput(string(uri)) {
		limit = s.cfg.Input
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: limit}
}

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

// takesInput reports whether a POST to path brings a RunAgentInput, as the tool of MCP that starts a run does.
func takesInput(path string) bool {
	path = strings.TrimSuffix(path, "/")
	if rest, ok := strings.CutPrefix(path, "/api/projects/"); ok {
		_, rest, _ = strings.Cut(rest, "/")
		return rest == "agent-runs"
	}
	return path == "/api/v1/agent/runs" || path == "/mcp" || path == "/api/copilotkit" ||
		strings.HasPrefix(path, "/api/v1/agui/") || strings.HasPrefix(path, "/api/copilotkit/")
}
