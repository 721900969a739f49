package transports

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
)

// A program that has a server of its own passes requests on: to Handler from net/http, to Fiber from fiber. They
// are answered as those that came in on Serve's listener: the same rules for Host, Origin, credentials and
// sizes, live streams, WebSockets, and runs that end when their client has left.

// Handler answers requests that a server of net/http has taken, over HTTP/1.1 or HTTP/2. Each is passed on, over
// a connection in memory, to the server that Serve runs, whose streams are not net/http's: that costs a stream
// some 25 KB and an event some microseconds (see BenchmarkDoors of package baton). Middleware may stand before it
// if its ResponseWriter can be unwrapped (see http.ResponseController). The taking server's WriteTimeout does not
// hold for what is written here.
func (s *Server) Handler() http.Handler {
	s.app.Handler() // lays out the routes, as Serve does
	proxy := &httputil.ReverseProxy{
		Rewrite:       passOn,
		Transport:     door{s},
		FlushInterval: -1,
		BufferPool:    new(buffers),
		ErrorLog:      slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug), // of clients that left
		ErrorHandler:  s.undeliverable,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.visits.enter() {
			refuse(w, runtime.ErrStopping)
			return
		}
		defer s.visits.leave()
		ctl := http.NewResponseController(w)
		defer func() { _ = ctl.SetWriteDeadline(time.Time{}) }()
		ctx := context.WithValue(r.Context(), taken{}, r)
		proxy.ServeHTTP(&patient{w, ctl, 2 * s.cfg.Streams.WriteTimeout()}, r.WithContext(ctx))
	})
}

// passOn has the request be what it was: which proxies are believed is decided where it is answered.
func passOn(p *httputil.ProxyRequest) {
	p.Out.Header.Del("Expect") // net/http has met it
	for _, name := range []string{fiber.HeaderXForwardedFor, fiber.HeaderXForwardedProto, fiber.HeaderXForwardedHost} {
		if values := p.In.Header.Values(name); len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

// undeliverable answers a request that got no answer.
func (s *Server) undeliverable(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		s.cfg.Log.Warn("a request got no answer", "method", r.Method, "path", auth.Shown(r.URL.Path), "error", err)
	}
	refuse(w, err)
}

// refuse answers with err, for which there is no fiber.Ctx.
func refuse(w http.ResponseWriter, err error) {
	status, body, wait := Status(err)
	w.Header().Set("Content-Type", fiber.MIMEApplicationJSON)
	if wait > 0 {
		w.Header().Set("Retry-After", retryAfter(wait))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Fiber answers requests that a fiber program has taken; the paths are the server's own, so that it stands at
// the root of the program's. The program's server keeps its own limits and timeouts.
func (s *Server) Fiber() fiber.Handler {
	answer := s.app.Handler()
	return func(c *fiber.Ctx) error {
		if !s.visits.enter() {
			return s.fail(c, runtime.ErrStopping)
		}
		defer s.visits.leave()
		answer(c.Context())
		return nil
	}
}
