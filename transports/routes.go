package transports

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Route is an address at which a server answers. It has Known or Public, and its handler returns errors as they are.
type Route struct {
	Method, Path string
	Known        auth.Handler  // for those whom the server knows, in the project that the path or the query names
	Public       fiber.Handler // for everybody: it tells nothing that is anybody's
	Late         bool          // Known is called for a project that is not there, too, with the caller's default one
	Large        bool          // it reads what may be large: see Streams.Turn
	Searched     bool          // with the query q it searches, which waits for its like and has nobody else wait
	Stream       bool          // it is one that a ticket opens: a GET that shows what happens for as long as it happens

	// A body is JSON, and read before Known is called; of which nothing needs to be kept: it is nobody else's.
	Input  bool  // it may be as large as one that starts a run
	Echoes bool  // its answer repeats it, for which there must be room before anything is done
	Raw    int64 // Known reads it itself, with Route.Body: of any Content-Type, up to so many bytes
}

// Mounter is a transport: it says at which addresses it answers, from the root of the paths on.
type Mounter interface{ Routes() []Route }

// mount adds public routes to the server, then what finds out who asks, and then the others.
func (s *Server) mount(who fiber.Handler) error {
	for _, r := range s.routes {
		if (r.Known == nil) == (r.Public == nil) {
			return fmt.Errorf("transports: %s %s must be for those who are known, or for everybody", r.Method, r.Path)
		}
		if r.Public != nil {
			add(s.app, r, r.Public)
		}
	}
	s.app.Use(who)
	for _, r := range s.routes {
		if r.Known != nil {
			add(s.app, r, s.known(&r))
		}
	}
	s.app.Use(s.unknown)
	return nil
}

func add(app *fiber.App, r Route, h fiber.Handler) {
	if r.Method == fiber.MethodGet {
		app.Get(r.Path, h) // and HEAD
		return
	}
	app.Add(r.Method, r.Path, h)
}

// known gives the route's handler who asks and what. A context that ends when its client leaves, or its credential ends, has a request
// that only reads: one that changes something is carried through.
func (s *Server) known(r *Route) fiber.Handler {
	return func(c *fiber.Ctx) error {
		own, err := auth.ForProject(c, "")
		if err != nil {
			return err
		}
		who, err := auth.ForProject(c, project(c))
		if err == nil {
			own = who
		}
		let, limited := s.admit(c, own)
		switch {
		case limited != nil:
			return limited
		case auth.Of(c).Streams && !r.Stream:
			return errStreams
		case err != nil && !r.Late:
			return err
		}
		defer let.done()
		who = own
		if err := s.body(c, r); err != nil {
			return err
		}
		answer := r.Known
		if r.Large && (!r.Searched || c.Query("q") == "") {
			answer = s.cfg.Streams.inTurn(answer)
		}
		if r.Raw > 0 {
			ctx, cancel := context.WithCancelCause(c.UserContext())
			defer cancel(nil)
			defer context.AfterFunc(s.ending, func() { cancel(context.Cause(s.ending)) })()
			c.SetUserContext(ctx)
		}
		if c.Method() != fiber.MethodGet && c.Method() != fiber.MethodHead {
			err := answer(c, who)
			return because(c.UserContext(), err) // see Reading
		}
		c.SetUserContext(watched(c))
		if r.Stream { // which goes on when its handler has returned, and ends with its credential by itself
			return because(c.UserContext(), r.Known(c, who))
		}
		ctx, cancel := context.WithCancelCause(c.UserContext())
		release := auth.TermOf(c).Watch(cancel)
		defer func() {
			release()
			if !c.Response().IsBodyStream() { // a long answer is read behind its handler, and ends with its connection
				cancel(nil)
			}
		}()
		c.SetUserContext(ctx)
		return because(ctx, answer(c, who))
	}
}

// Reading returns a context for what a request only reads, whatever its method: it ends with the cause stream.ErrGone when its client
// has left.
func Reading(c *fiber.Ctx) context.Context {
	if c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead {
		return c.UserContext() // which does
	}
	return watched(c)
}

// watched returns the request's context for as long as its client is there.
func watched(c *fiber.Ctx) context.Context {
	if own := stream.Own(c.Context().Conn()); own != nil {
		return own.Request(c.UserContext())
	}
	return c.UserContext()
}

// because returns what has ended ctx, when a handler has failed after that: what it was reading tells no cause.
func because(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err != nil && (errors.Is(cause, auth.ErrEnded) || errors.Is(cause, stream.ErrGone)) {
		return cause
	}
	return err
}

var errStreams = &runtime.Error{
	Kind: runtime.KindUnauthorized, Code: "unauthorized", Detail: "A ticket opens the stream that it was made for, and nothing else",
}

// project is the project that a request names: in its path, or else in its query.
func project(c *fiber.Ctx) string {
	if p := c.Params("projectId"); p != "" {
		return wire.Unescape(p)
	}
	return c.Query("projectId")
}

// InBody returns who in the project that a request's body names, unless the request has named one before.
func InBody(c *fiber.Ctx, who runtime.Caller, named string) (runtime.Caller, error) {
	if named == "" || project(c) != "" {
		return who, nil
	}
	return auth.ForProject(c, named)
}
