package transports

import (
	"context"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/quota"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/budget"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/wire"
)

// A request counts against its caller's limits after authentication and before its body is read, for the project in its path or
// query, or else the first project of its credential. A repeat with an Idempotency-Key counts like any other request.
//
// A cancel counts, too, but is never refused: it ends work. Cancels without effect read one row and write nothing.
//
// The request reserves the place of a stream until it is answered; then the stream itself holds a place. Between the two the
// place is free for a moment, so simultaneous requests may open a few streams more than the limit.

// admission is an admitted request.
type admission struct {
	who      runtime.Caller
	release  func() // frees the place of a stream; nil when none is reserved
	received int    // bytes of a body that the route has read
	limited  error  // refuses all but cancels, as the caller is over its rate; nil below it
}

type admissionKey struct{}

func admissionOf(c *fiber.Ctx) *admission {
	a, _ := c.Locals(admissionKey{}).(*admission)
	return a
}

// OverRate reports whether c was admitted for a cancel alone.
func OverRate(c *fiber.Ctx) bool {
	a := admissionOf(c)
	return a != nil && a.limited != nil
}

// admit counts a request.
func (s *Server) admit(c *fiber.Ctx, who runtime.Caller) *admission {
	a := &admission{who: who, limited: s.cfg.Streams.Rates.Take(who)}
	c.Locals(admissionKey{}, a)
	return a
}

// maxCancel is the limit for the body of a request over its caller's rate.
const maxCancel = 4 << 10

// receive reads the body of an admitted request for r. Over the caller's rate it fails, unless the body asks for a cancel.
func (s *Server) receive(c *fiber.Ctx, r *Route, let *admission) error {
	if let.limited == nil {
		return s.body(c, r, s.limit(r))
	}
	if s.body(c, r, maxCancel) != nil || !r.Cancels(c.Request().Body()) {
		return let.limited
	}
	return nil
}

// owner returns the owner of the bytes that a request holds.
func (s *Server) owner(ctx *fasthttp.RequestCtx) quota.Owner {
	a, ok := ctx.UserValue(admissionKey{}).(*admission)
	if !ok {
		return quota.Owner{}
	}
	return s.cfg.Streams.Owner(Holder{who: a.who})
}

// done frees the place that the request has reserved.
func (a *admission) done() {
	if a.release != nil {
		a.release()
	}
}

// unknown counts requests for unknown paths.
func (s *Server) unknown(c *fiber.Ctx) error {
	if who, err := auth.ForProject(c, ""); err == nil {
		if let := s.admit(c, who); let.limited != nil {
			return let.limited
		}
	}
	return c.Next()
}

// Idempotency returns the key of c for the runtime, nil for a request without an Idempotency-Key: see wire.Idempotency.
func Idempotency(c *fiber.Ctx, who runtime.Caller, path, bodyHash string) (*runtime.Idempotency, error) {
	return wire.Idempotency(who, c.Method(), path, c.Request().Header.PeekAll("Idempotency-Key"), bodyHash)
}

// Reserve reserves a place for a stream that answers c, before the request has any effect. It fails when the caller has too many
// streams. A second call does nothing.
func (s *Streams) Reserve(c *fiber.Ctx) error {
	a := admissionOf(c)
	if a == nil || a.release != nil || c.Method() == fiber.MethodHead {
		return nil
	}
	release, err := s.Rates.Reserve(a.who)
	if err == nil {
		a.release = release
	}
	return err
}

// Owner returns the owner of the bytes that a stream holds, none where users have no limits.
func (s *Streams) Owner(h Holder) quota.Owner {
	if s.Rates == nil {
		return quota.Owner{}
	}
	return rates.OwnerOf(h.who)
}

// HoldOf returns the part of the budget that a request and its answer hold, for a handler that reserves room for the answer before
// the request has any effect: the server then does not refuse the answer. The server releases it after the answer was
// written; behind another program's server release does, so call release in any case.
func (s *Streams) HoldOf(c *fiber.Ctx) (held *budget.Hold, release func()) {
	if in, ok := c.Context().UserValue(incomingKey{}).(*incoming); ok {
		in.told = true
		return in.own.Hold(s.Budget).For(s.Owner(HolderOf(c))), func() {}
	}
	held = s.Budget.Hold().For(s.Owner(HolderOf(c)))
	return held, held.Release
}

// Holder is the caller of a stream and the term of its credential.
type Holder struct {
	who    runtime.Caller
	term   auth.Term
	within func(context.Context) context.Context // makes a context part of the client's trace; nil for none
}

// HolderOf returns the holder of a stream that answers c.
func HolderOf(c *fiber.Ctx) Holder {
	h := Holder{term: auth.TermOf(c)}
	h.within, _ = c.Locals(withinKey{}).(func(context.Context) context.Context)
	if a := admissionOf(c); a != nil {
		h.who = a.who
	}
	return h
}
