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

// A program with its own server passes requests on: net/http to Handler, fiber to Fiber. They are answered like those of Serve's
// listener: the same rules for Host, Origin, credentials and sizes, live streams, WebSockets, and runs that end when their
// client has disconnected.

// Handler answers requests of a net/http server, over HTTP/1.1 or HTTP/2. It passes each on, over a connection in memory, to the
// server that Serve runs, whose streams are not net/http's: that costs some 25 KB a stream and some microseconds an event (see
// BenchmarkDoors of package baton). Middleware may wrap it if its ResponseWriter can be unwrapped (see
// http.ResponseController). The net/http server's WriteTimeout does not apply.
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
			Refuse(w, runtime.ErrStopping)
			return
		}
		defer s.visits.leave()
		ctl := http.NewResponseController(w)
		defer func() { _ = ctl.SetWriteDeadline(time.Time{}) }()
		ctx := context.WithValue(r.Context(), taken{}, r)
		proxy.ServeHTTP(&deadlineWriter{w, ctl, 2 * s.cfg.Streams.WriteTimeout()}, r.WithContext(ctx))
	})
}

// passOn restores the forwarding headers: the server decides which proxies to trust.
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
	Refuse(w, err)
}

// Refuse answers with err, for which there is no fiber.Ctx.
func Refuse(w http.ResponseWriter, err error) {
	status, body, wait := Status(err)
	w.Header().Set("Content-Type", fiber.MIMEApplicationJSON)
	if wait > 0 {
		w.Header().Set("Retry-After", retryAfter(wait))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Fiber answers requests of a fiber program. The paths are the server's own, so it must be mounted at the root. The program's
// server applies its own limits and timeouts.
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
