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

// Admission counts a request against its caller's limits once the caller is known, before the body is read. It counts for the project
// that the path or the query names, or else the first project of the credential.
//
// A stream's place is held by its request until that is answered, and by the stream from when it begins. Between the two it is
// free for a moment: requests of the same moment may open a few streams more than there are places.

// admission is what a request was let in with.
type admission struct {
	who     runtime.Caller
	release func() // gives the place of a stream back; nil when none is held
}

type admissionKey struct{}

func admissionOf(c *fiber.Ctx) *admission {
	a, _ := c.Locals(admissionKey{}).(*admission)
	return a
}

// admit counts a request, or refuses it.
func (s *Server) admit(c *fiber.Ctx, who runtime.Caller) (*admission, error) {
	if err := s.cfg.Streams.Rates.Take(who); err != nil {
		return nil, err
	}
	a := &admission{who: who}
	c.Locals(admissionKey{}, a)
	return a, nil
}

// owner returns the owner of what a request has in flight.
func (s *Server) owner(ctx *fasthttp.RequestCtx) quota.Owner {
	a, ok := ctx.UserValue(admissionKey{}).(*admission)
	if !ok {
		return quota.Owner{}
	}
	return s.cfg.Streams.Owner(Holder{who: a.who})
}

// done gives back what the request alone has held.
func (a *admission) done() {
	if a.release != nil {
		a.release()
	}
}

// unknown counts requests for what is not there.
func (s *Server) unknown(c *fiber.Ctx) error {
	if who, err := auth.ForProject(c, ""); err == nil {
		if err := s.cfg.Streams.Rates.Take(who); err != nil {
			return err
		}
	}
	return c.Next()
}

const idempotencyKey = "Idempotency-Key"

// Idempotency returns what the runtime remembers c by, nil for a request without an Idempotency-Key: see wire.Idempotency.
func Idempotency(c *fiber.Ctx, who runtime.Caller, path, bodyHash string) (*runtime.Idempotency, error) {
	return wire.Idempotency(who, c.Method(), path, c.Request().Header.PeekAll(idempotencyKey), bodyHash)
}

// Reserve holds a place for the stream that c may be answered with, before anything is begun for it. It fails when the caller
// has as many open as it may. Called again it does nothing.
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

// Owner returns the owner of what a stream has in flight, nobody where users have no limits.
func (s *Streams) Owner(h Holder) quota.Owner {
	if s.Rates == nil {
		return quota.Owner{}
	}
	return rates.OwnerOf(h.who)
}

// HoldOf returns what a request and its answer hold of the budget, for who sees to it that there is room for the answer before
// anything is done: the server does not refuse it. It gives all back when the answer was taken; behind another program's server
// release does, which is to be called in any case.
func (s *Streams) HoldOf(c *fiber.Ctx) (held *budget.Hold, release func()) {
	if in, ok := c.Context().UserValue(incomingKey{}).(*incoming); ok {
		in.told = true
		return in.own.Hold(s.Budget).For(s.Owner(HolderOf(c))), func() {}
	}
	held = s.Budget.Hold().For(s.Owner(HolderOf(c)))
	return held, held.Release
}

// Holder is whose a stream is, and for how long.
type Holder struct {
	who    runtime.Caller
	term   auth.Term
	within func(context.Context) context.Context // puts what is done on it inside its client's operation; nil for none
}

// HolderOf returns the holder of the stream that c is answered with.
func HolderOf(c *fiber.Ctx) Holder {
	h := Holder{term: auth.TermOf(c)}
	h.within, _ = c.Locals(withinKey{}).(func(context.Context) context.Context)
	if a := admissionOf(c); a != nil {
		h.who = a.who
	}
	return h
}
