package transports

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Problem is an error response.
type Problem struct {
	Detail    string `json:"detail"`              // A sentence for people that says what to change.
	Code      string `json:"code"`                // A code for programs, in snake_case. Branch on this.
	Place     string `json:"place,omitempty"`     // Some 400 responses only: a JSON pointer to the invalid part of the request body.
	RequestID string `json:"requestId,omitempty"` // 500 responses only: the id of the request in the server's log.
}

// statuses maps the kinds of the runtime's errors to HTTP statuses.
var statuses = [...]int{
	runtime.KindInvalid:      fiber.StatusBadRequest,
	runtime.KindUnauthorized: fiber.StatusUnauthorized,
	runtime.KindNotFound:     fiber.StatusNotFound,
	runtime.KindForbidden:    fiber.StatusForbidden,
	runtime.KindConflict:     fiber.StatusConflict,
	runtime.KindTooLarge:     fiber.StatusRequestEntityTooLarge,
	runtime.KindOverloaded:   fiber.StatusTooManyRequests,
	runtime.KindUnavailable:  fiber.StatusServiceUnavailable,
	runtime.KindUnsupported:  fiber.StatusUnsupportedMediaType,
}

// problems maps HTTP statuses to bodies. An empty detail leaves the error's own.
var problems = map[int]Problem{
	fiber.StatusBadRequest:                  {Detail: "The request is not valid HTTP", Code: "invalid_request"},
	fiber.StatusUnauthorized:                {Code: "unauthorized"},
	fiber.StatusForbidden:                   {Code: "forbidden"},
	fiber.StatusNotFound:                    {Detail: "There is nothing at this path", Code: "not_found"},
	fiber.StatusMethodNotAllowed:            {Detail: "This path does not take that method", Code: "method_not_allowed"},
	fiber.StatusNotImplemented:              {Detail: "There is no such method", Code: "not_implemented"},
	fiber.StatusRequestTimeout:              {Detail: "The request took too long to arrive", Code: "request_timeout"},
	fiber.StatusRequestEntityTooLarge:       {Detail: "The request's body is too large", Code: "body_too_large"},
	fiber.StatusUnsupportedMediaType:        {Code: "unsupported_media_type"},
	fiber.StatusMisdirectedRequest:          {Code: "foreign_host"},
	fiber.StatusUpgradeRequired:             {Detail: "This path is a WebSocket; ask for the upgrade", Code: "upgrade_required"},
	fiber.StatusRequestHeaderFieldsTooLarge: {Detail: "The request's headers are too large", Code: "headers_too_large"},
	fiber.StatusBadGateway:                  {Detail: "The connection broke before the request was whole", Code: "request_broken"}, // which no client reads
}

// Status returns the status and body for err, and the time after which the client may try again, 0 for unknown. An unknown error
// is a 500 without details.
func Status(err error) (int, Problem, time.Duration) {
	if refusal, ok := errors.AsType[*runtime.Error](err); ok {
		status, wait := statuses[refusal.Kind], refusal.RetryAfter
		if wait == 0 && (status == fiber.StatusTooManyRequests || status == fiber.StatusServiceUnavailable) {
			wait = time.Second
		}
		return status, Problem{Detail: cut(refusal.Detail), Code: refusal.Code, Place: cut(refusal.Place)}, wait
	}
	if httpErr, ok := errors.AsType[*fiber.Error](err); ok {
		if p, ok := problems[httpErr.Code]; ok {
			if p.Detail == "" {
				p.Detail = httpErr.Message
			}
			return httpErr.Code, p, 0
		}
	}
	return fiber.StatusInternalServerError, Problem{Detail: "internal error", Code: "internal"}, 0
}

// maxDetail limits the detail of an error in bytes of JSON: it may quote the request.
const maxDetail = 1 << 10

// cut shortens a text at a rune.
func cut(text string) string {
	size := 0
	for i, r := range text {
		switch {
		case r == '"' || r == '\\':
			size += 4 // as JSON in JSON has it
		case r < ' ' || strings.ContainsRune("<>&\u2028\u2029", r):
			size += 6
		default:
			size += utf8.RuneLen(r)
		}
		if size > maxDetail {
			return text[:i] + "…"
		}
	}
	return text
}

// fail answers a request with err. It is the one place where errors become answers.
func (s *Server) fail(c *fiber.Ctx, err error) error {
	if errors.Is(err, stream.ErrGone) { // no client reads the answer
		s.cfg.Log.With(Names(c)...).Debug("request is given up: its client has left", "request", requestID(c), "method", c.Method(), "path", auth.Shown(c.Path()))
		return c.SendStatus(fiber.StatusBadGateway)
	}
	status, body, wait := Status(err)
	if len(c.Response().Header.Peek(fiber.HeaderXRequestID)) == 0 {
		secure(c) // nothing else of ours was done
	}
	if status == fiber.StatusInternalServerError {
		body.RequestID = string(c.Response().Header.Peek(fiber.HeaderXRequestID))
		s.cfg.Log.With(Names(c)...).Error("request failed", "request", body.RequestID, "method", c.Method(), "path", auth.Shown(c.Path()), "error", err)
	}
	if wait > 0 {
		c.Set(fiber.HeaderRetryAfter, retryAfter(wait))
	}
	if status == fiber.StatusUnauthorized {
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
	if status == fiber.StatusRequestEntityTooLarge {
		stream.Linger(c.Context().Conn())
	}
	return c.Status(status).JSON(body)
}

// Names returns the run and the thread in a request's path, as pairs for the log.
func Names(c *fiber.Ctx) (names []any) {
	for _, p := range [...][2]string{{"runId", "run"}, {"run_id", "run"}, {"thread_id", "thread"}, {"threadId", "thread"}, {"conversation_id", "thread"}} {
		if name := c.Params(p[0]); name != "" {
			names = append(names, p[1], strings.Clone(wire.Unescape(name)))
		}
	}
	return append(names, runtime.TraceOf(strings.Clone(c.Get("traceparent")))...)
}

// retryAfter is wait as the header Retry-After has it.
func retryAfter(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }

// panicError is the error of a handler that panicked.
type panicError struct {
	value any
	stack []byte
}

func newPanicError(v any) error { return &panicError{v, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }
