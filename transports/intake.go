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

// How a body comes in. Fasthttp would read it, into as much memory as its head announces, before anybody has judged Host, Origin
// and credential; its own way to stream one keeps a buffer for each connection for as long as that lasts, begins by waiting for
// 8 KiB, and takes what was not read for the next request. So it is told that there are no bodies: a connection of ours hands over
// heads alone (see stream.Conn), and the route that a request is for reads the body, up to its limit and within the budget.

// announced is the header that keeps what a head says of its body, as a length, or -1 for chunks, and a plus when the client waits
// for word that it may send. It goes from one callback of fasthttp to the other, and no client can set it.
const announced = "Baton-Body"

// announce notes what a head says of its body, and hides it from fasthttp.
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

// incoming is a body that nobody has read.
type incoming struct {
	own    *stream.Conn
	length int // -1 for chunks
	greet  bool
	told   bool // there was room for its answer before anything was done, which is not refused any more
}

type incomingKey struct{}

// arrived takes what announce has noted.
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
			in.own.Work()
		} else {
			ctx.SetUserValue(incomingKey{}, &in)
		}
		if known(ctx.Method()) {
			s.shielded(ctx, h)
		} else {
			s.failHere(ctx, fiber.ErrNotImplemented) // which fiber would answer by itself
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

// shielded calls h, and answers for it when it panics: what happens outside of guard would end the process.
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

// keep frees the request, and counts its answer, if that is large, as long as its client does not take it. One for which there was
// room before is not refused for the little that it has come to beyond that: what was done must be told.
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

// watchState is told what fasthttp does with a connection.
func watchState(c net.Conn, state fasthttp.ConnState) {
	own := stream.Own(c)
	switch {
	case own == nil:
	case state == fasthttp.StateIdle:
		own.Idle()
	case state == fasthttp.StateHijacked:
		own.Rest()
	}
}

// body reads the body of a request for r, unless the route does itself.
func (s *Server) body(c *fiber.Ctx, r *Route) error {
	in, _ := c.Context().UserValue(incomingKey{}).(*incoming)
	switch {
	case r.Raw > 0:
		return nil
	case in != nil:
		return s.read(c, in, r)
	case c.Request().IsBodyStream(): // of a program's fiber server that streams
		return s.readFrom(c, c.Request().BodyStream(), c.Request().Header.ContentLength(), r, new(budget.Hold))
	}
	return plain(c, len(c.Request().Body()), s.limit(r))
}

func (s *Server) read(c *fiber.Ctx, in *incoming, r *Route) error {
	if in.length > 0 {
		if err := plain(c, in.length, s.limit(r)); err != nil {
			return err
		}
	}
	held := in.own.Hold(s.cfg.Streams.Budget).For(s.owner(c.Context()))
	err := s.readFrom(c, in.own.Body(in.length, in.greet), in.length, r, held)
	if err == nil && r.Echoes {
		in.told = true
		if n := repeated(c.Request().Body()); n > LargeAnswer {
			err = held.Grow(n)
		}
	}
	in.own.Work()
	return err
}

func (s *Server) readFrom(c *fiber.Ctx, from io.Reader, length int, r *Route, held *budget.Hold) error {
	body, err := held.ReadAll(from, length, s.limit(r))
	if err == nil && r.Input && len(body) > largeInput {
		err = held.Grow(wire.Decoded(body))
	}
	if err != nil {
		return unread(err)
	}
	c.Request().SetBodyRaw(body)
	return plain(c, len(body), s.limit(r))
}

// repeated is how large an answer that repeats body is at most, in JSON: it quotes the separators of lines and paragraphs.
func repeated(body []byte) int { return 1<<10 + len(body) + 3*wire.Separators(body) }

// Decoded lets go of a request's body once all that is wanted of it was decoded: what it has come to is as large, and is there
// until the answer. The budget counts it on.
func Decoded(c *fiber.Ctx) {
	if _, own := c.Context().UserValue(incomingKey{}).(*incoming); own { // else its memory may be another's
		c.Request().ResetBody()
	}
}

// largeInput is the size above which what starts a run counts once more, as what it is decoded to.
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

// limit is how large a body the route takes.
func (s *Server) limit(r *Route) int {
	if r.Input {
		return s.cfg.Input
	}
	return s.cfg.Body
}

// unread is what a client is told of a body that could not be read.
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

// Body is the body of a request for a route that is Raw, as it comes. Reading it fails, with an error to return, when it is larger
// than the route takes or does not get on.
func (r *Route) Body(c *fiber.Ctx) io.Reader {
	in, _ := c.Context().UserValue(incomingKey{}).(*incoming)
	var from io.Reader
	switch {
	case in != nil:
		body := in.own.Body(in.length, in.greet)
		body.Unhurried = true
		from = body
		in.own.Work()
	case c.Request().IsBodyStream():
		from = c.Request().BodyStream()
	default:
		from = bytes.NewReader(c.Request().Body())
	}
	return &capped{from, r.Raw}
}

// capped is a body of which so much may be read.
type capped struct {
	r    io.Reader
	left int64
}

func (b *capped) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left {
		p = p[:b.left+1]
	}
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fiber.ErrRequestEntityTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = unread(err)
	}
	return n, err
}
