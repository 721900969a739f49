package transports

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/static"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Fasthttp would read a body, into as much memory as the head announces, before Host, Origin and credential are checked. Its
// streaming mode keeps a buffer per connection, waits for the first 8 KiB, and parses an unread body as the next request. So
// the head is changed to announce no body: a stream.Conn returns heads only, and the route reads the body, within its limit
// and the budget.

// announced is the header that carries the body's length from one callback of fasthttp to the other, or -1 for chunks, with a plus
// when the client waits for 100 Continue. Clients cannot set it.
const announced = "Baton-Body"

// announce moves the body's length from the head into the header announced.
func announce(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	h.Del(announced)
	greet := ""
	if strings.EqualFold(string(h.Peek(fasthttp.HeaderExpect)), "100-continue") {
		if h.IsHTTP11() {
			greet = "+"
		}
		h.Del(fasthttp.HeaderExpect) // else fasthttp would have it sent
	}
	if length := h.ContentLength(); length > 0 || length == -1 {
		h.Set(announced, strconv.Itoa(length)+greet)
		h.SetContentLength(0)
	}
	return fasthttp.RequestConfig{}
}

// incoming is an unread body.
type incoming struct {
	own    *stream.Conn
	length int // -1 for chunks
	greet  bool
	told   bool // there was room for its answer before anything was done, which is not refused any more
}

type incomingKey struct{}

// arrived reads the header announced.
func arrived(own *stream.Conn, h *fasthttp.RequestHeader) incoming {
	noted, greet := strings.CutSuffix(string(h.Peek(announced)), "+")
	if noted == "" {
		return incoming{own: own}
	}
	h.Del(announced)
	length, _ := strconv.Atoi(noted)
	h.SetContentLength(length)
	return incoming{own: own, length: length, greet: greet}
}

// answering gives the requests that come in on connections of the server to h.
func (s *Server) answering(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		in := arrived(stream.Own(ctx.Conn()), &ctx.Request.Header)
		if in.length == 0 {
			in.own.BeginRequest()
		} else {
			ctx.SetUserValue(incomingKey{}, &in)
		}
		if known(ctx.Method()) {
			s.shielded(ctx, h)
		} else {
			s.failHere(ctx, fiber.ErrNotImplemented) // fiber would answer without the server's error format
		}
		if !ctx.Hijacked() {
			s.keep(ctx, &in)
		}
		if !in.own.Done(in.length) {
			ctx.SetConnectionClose()
			stream.Linger(in.own)
		}
	}
}

// known reports whether a method is one that any path may take.
func known(method []byte) bool { return slices.Contains(fiber.DefaultMethods, string(method)) }

// shielded calls h, and answers for it when it panics: a panic outside guard would end the process.
func (s *Server) shielded(ctx *fasthttp.RequestCtx, h fasthttp.RequestHandler) {
	defer func() {
		if v := recover(); v != nil {
			ctx.Response.Reset()
			ctx.HijackSetNoResponse(false)
			ctx.SetConnectionClose()
			s.failHere(ctx, newPanicError(v))
		}
	}()
	h(ctx)
}

// failHere answers with err a request for which there is no fiber.Ctx.
func (s *Server) failHere(ctx *fasthttp.RequestCtx, err error) {
	c := s.app.AcquireCtx(ctx)
	defer s.app.ReleaseCtx(c)
	_ = s.fail(c, err)
}

// keep frees the request, and counts a large answer until its client has read it. An answer with reserved room is not refused if
// it is a little larger: the request has had its effect.
func (s *Server) keep(ctx *fasthttp.RequestCtx, in *incoming) {
	ctx.Request.ResetBody()
	held := in.own.Hold(s.cfg.Streams.Budget)
	n := 0
	if !ctx.Response.IsBodyStream() && !static.Shared(ctx) {
		n = len(ctx.Response.Body())
	}
	if n <= LargeAnswer {
		held.Release()
		return
	}
	err := held.For(s.owner(ctx)).Resize(n)
	switch {
	case err == nil:
	case in.told:
		held.Force(n - held.Size())
	default:
		held.Release()
		ctx.Response.Reset()
		s.failHere(ctx, err)
	}
}

// LargeAnswer is the size above which an answer counts: smaller ones are with the kernel at once.
const LargeAnswer = 64 << 10

// watchState receives fasthttp's states of a connection.
func watchState(c net.Conn, state fasthttp.ConnState) {
	own := stream.Own(c)
	switch {
	case own == nil:
	case state == fasthttp.StateIdle:
		own.AwaitRequest()
	case state == fasthttp.StateHijacked:
		own.EndRequest()
	}
}

// body reads the body of a request for r, of up to limit bytes, unless the route does itself.
func (s *Server) body(c *fiber.Ctx, r *Route, limit int) error {
	in, _ := c.Context().UserValue(incomingKey{}).(*incoming)
	switch {
	case r.Raw > 0:
		return nil
	case in != nil:
		return s.read(c, in, r, limit)
	case c.Request().IsBodyStream(): // of a program's fiber server that streams
		return s.readFrom(c, c.Request().BodyStream(), c.Request().Header.ContentLength(), r, limit, new(budget.Hold))
	}
	return plain(c, len(c.Request().Body()), limit)
}

func (s *Server) read(c *fiber.Ctx, in *incoming, r *Route, limit int) error {
	if in.length > 0 {
		if err := plain(c, in.length, limit); err != nil {
			return err
		}
	}
	held := in.own.Hold(s.cfg.Streams.Budget).For(s.owner(c.Context()))
	err := s.readFrom(c, in.own.Body(in.length, in.greet), in.length, r, limit, held)
	if err == nil && r.Echoes {
		in.told = true
		if n := repeated(c.Request().Body()); n > LargeAnswer {
			err = held.Grow(n)
		}
	}
	in.own.BeginRequest()
	return err
}

func (s *Server) readFrom(c *fiber.Ctx, from io.Reader, length int, r *Route, limit int, held *budget.Hold) error {
	body, err := held.ReadAll(from, length, limit)
	if err == nil && r.Input && len(body) > largeInput {
		err = held.Grow(wire.Decoded(body))
	}
	if err != nil {
		return unread(err)
	}
	c.Request().SetBodyRaw(body)
	return plain(c, len(body), limit)
}

// repeated is how large an answer that repeats body is at most, in JSON: it quotes the separators of lines and paragraphs.
func repeated(body []byte) int { return 1<<10 + len(body) + 3*wire.Separators(body) }

// Decoded replaces a request's body by nothing after it was decoded. The decoded value is as large and lives until the answer, so
// the budget counts on.
func Decoded(c *fiber.Ctx) {
	if _, own := c.Context().UserValue(incomingKey{}).(*incoming); own { // else its memory may be another's
		c.Request().ResetBody()
	}
}

// largeInput is the size above which the body of a start counts twice, for its decoded form.
const largeInput = 64 << 10

// plain refuses bodies that are too large or not JSON.
func plain(c *fiber.Ctx, n, limit int) error {
	switch {
	case n > limit:
		return fiber.ErrRequestEntityTooLarge
	case n == 0:
		return nil
	}
	return auth.JSON(c)
}

// limit is the route's limit for a body.
func (s *Server) limit(r *Route) int {
	if r.Input {
		return s.cfg.Input
	}
	return s.cfg.Body
}

// unread is the error for a body that could not be read.
func unread(err error) error {
	var broken net.Error
	switch {
	case errors.Is(err, budget.ErrTooLarge):
		return fiber.ErrRequestEntityTooLarge
	case errors.Is(err, stream.ErrLate):
		return fiber.ErrRequestTimeout
	case errors.Is(err, budget.ErrSpent), refused(err):
		return err
	case errors.As(err, &broken), errors.Is(err, io.ErrUnexpectedEOF):
		return fiber.ErrBadGateway
	}
	return fmt.Errorf("%w: %w", fiber.ErrBadRequest, err)
}

// refused reports whether the body is one too many for its sender.
func refused(err error) bool {
	e, ok := errors.AsType[*runtime.Error](err)
	return ok && e.Kind == runtime.KindOverloaded
}

// Body streams the body of a request for a Raw route. Reading fails, with an error to return, when the body is too large or too
// slow.
func (r *Route) Body(c *fiber.Ctx) io.Reader {
	in, _ := c.Context().UserValue(incomingKey{}).(*incoming)
	var from io.Reader
	switch {
	case in != nil:
		body := in.own.Body(in.length, in.greet)
		body.Unhurried = true
		from = body
		in.own.BeginRequest()
	case c.Request().IsBodyStream():
		from = c.Request().BodyStream()
	default:
		from = bytes.NewReader(c.Request().Body())
	}
	return &capped{from, r.Raw, admissionOf(c)}
}

// capped is a body with a limit.
type capped struct {
	r    io.Reader
	left int64
	of   *admission
}

func (b *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	b.of.received += n
	if b.left -= int64(n); b.left < 0 {
		return 0, fiber.ErrRequestEntityTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = unread(err)
	}
	return n, err
}
