package transports

import (
	"context"
	"errors"
	"fmt"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Route is an address at which a server answers. It has Known or Public, and its handler returns errors as they are.
type Route struct {
	Method, Path string
	Known        auth.Handler  // for authenticated callers, in the project of the path or the query
	Public       fiber.Handler // for everybody: it shows nothing that belongs to a user
	Late         bool          // Known is called for an unknown project, too, with the caller's default project
	Large        bool          // its answer may be large: see Streams.Turn
	Searched     bool          // with the query q it searches, and the runtime limits searches
	Stream       bool          // a ticket opens it: a GET that streams events

	// Cancels reports whether a body asks for a cancel, which is never rate limited. If it may ask for more beside it, Known
	// refuses that when OverRate. Nil for a route that cancels nothing.
	Cancels func(body []byte) bool

	// The body is JSON and read before Known is called. The handler owns it.
	Input  bool  // the body may be as large as one that starts a run
	Echoes bool  // its answer repeats it: the budget reserves room first
	Raw    int64 // Known reads it with Route.Body: any Content-Type, up to this many bytes
}

// Cancels is Route.Cancels of a route that only cancels.
func Cancels([]byte) bool { return true }

// Mounter is a transport. Its routes' paths are absolute.
type Mounter interface{ Routes() []Route }

// mount adds public routes to the server, then authentication, and then the other routes.
func (s *Server) mount(who fiber.Handler) error {
	for _, r := range s.routes {
		if (r.Known == nil) == (r.Public == nil) {
			return fmt.Errorf("transports: %s %s must be for those who are known, or for everybody", r.Method, r.Path)
		}
		if r.Public != nil {
			add(s.app, r, r.Public)
		}
	}
	if !s.cfg.Bare {
		s.app.Use(home) // behind the console, which answers browsers
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

// home answers programs that ask for the printed address.
func home(c *fiber.Ctx) error {
	if c.Path() != "/" || c.Method() != fiber.MethodGet {
		return c.Next()
	}
	return c.JSON(map[string]string{"server": "baton", "runs": "/api/v1/agent/runs", "openapi": "/openapi.json", "docs": "/docs", "ready": "/readyz"})
}

func add(app *fiber.App, r Route, h fiber.Handler) {
	if r.Method == fiber.MethodGet {
		app.Get(r.Path, h) // and HEAD
		return
	}
	app.Add(r.Method, r.Path, h)
}

// known authenticates and admits a request for the route's handler. The context of a request that only reads ends when its client
// disconnects or its credential ends; other requests are carried through.
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
		let := s.admit(c, own)
		switch {
		case let.limited != nil && r.Cancels == nil:
			return let.limited
		case auth.Of(c).Streams && !r.Stream:
			return errStreams
		case err != nil && !r.Late:
			return err
		}
		defer let.done()
		who = own
		if err := s.receive(c, r, let); err != nil {
			return err
		}
		s.cfg.Streams.Rates.Charge(who, r.stores(len(c.Request().Body())))
		defer s.charge(c, let)
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
		if r.Stream { // a stream goes on after its handler has returned, and ends with its credential
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

// stores returns as what a body of n bytes counts.
func (r *Route) stores(n int) int {
	if r.Input || r.Echoes {
		return rates.Stored * n
	}
	return n
}

// charge counts the bytes of a file and of an answer whose size is known. Streams count their own.
func (s *Server) charge(c *fiber.Ctx, let *admission) {
	n := let.received
	if !c.Response().IsBodyStream() {
		n += len(c.Response().Body())
	} else if c.Method() != fiber.MethodHead {
		n += max(c.Response().Header.ContentLength(), 0)
	}
	s.cfg.Streams.Rates.Charge(let.who, n)
}

// Reading returns a context for reads in a request of any method: it ends with the cause stream.ErrGone when the client
// disconnects.
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

// because returns the cause of ctx for an error of a handler after ctx has ended, as reads do not return the cause.
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

// InBody returns the caller in the project that a request's body names, unless its path or query names one.
func InBody(c *fiber.Ctx, who runtime.Caller, named string) (runtime.Caller, error) {
	if named == "" || project(c) != "" {
		return who, nil
	}
	return auth.ForProject(c, named)
}
