// Package transports is the HTTP server that Baton's transports are mounted on: it turns errors into answers, enforces
// limits, serves and counts the event streams, and stops in order. Transports define the routes; auth defines the rules for
// Host, Origin and bodies.
//
// # Packages
//
// Transports share packages of one purpose each: stream (connections), budget (memory held for clients), rates (rate limits),
// fanout (a log shown to many viewers), ownership (the connection that owns a run), wire (requests and answers as JSON) and
// auth (callers). Streams combines the first five. A transport is a package, too; no transport imports another.
//
// # Stopping
//
// Viewers watch runs to their end, so a program stops in this order:
//
//  1. runtime.Shutdown: readiness turns red, new runs are refused with 503, live runs drain or are released,
//     and viewers see everything they still write.
//  2. Server.Shutdown: the listener is closed first, so that a reconnecting EventSource finds no server and
//     tries again (an answer of 503 would end it for good); then the open streams are ended with a request to
//     reconnect, in slices; requests in progress are answered.
//  3. The store is closed.
package transports

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"golang.org/x/sync/singleflight"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/stream"
	"github.com/batonrun/baton/transports/wire"
)

// Config configures a Server. Runtime and Streams must be set; other zero fields mean the default.
type Config struct {
	Runtime *runtime.Runtime
	Streams *Streams // the same as the transports have
	Log     *slog.Logger

	Listen   string             // address to serve on, default 127.0.0.1:8080
	Insecure bool               // serve addresses that other machines reach, over plain HTTP or without accounts
	TLS      *tls.Config        // makes Serve speak HTTPS (HTTP/1.1); nil for plain HTTP
	Accounts auth.Authenticator // identifies callers, default auth.Local for every request
	Hosts    []string           // Host names admitted beside the address, localhost and loopback literals
	Origins  []string           // web origins admitted beside the server's own
	Cookies  bool               // pages of Origins may have their browsers send cookies and the like
	Proxies  auth.Proxies       // trusted proxies, whose forwarded addresses are believed

	Body   int // bytes of a request's body, default 2 MiB
	Input  int // of one that starts a run, default 32 MiB
	Header int // of a request's line and headers, default 16 KiB

	HeadTimeout  time.Duration // for a request's line and headers from its first byte, default 10 s
	ReadTimeout  time.Duration // for the whole of its body, default 1 min
	WriteTimeout time.Duration // for the whole of an answer that is no stream, default 5 min
	IdleTimeout  time.Duration // before a connection's first request and between two, default 2 min
	Slack        time.Duration // pause in a body or in reading an answer, default 10 s
	Rate         int           // bytes per second that clients must send and take on the average, default 4 KiB

	Conns     int // connections at a time, default as many as the process has descriptors for
	PeerConns int // of them from one address, default half
	Guesses   int // credentials of one address that are wrong in a minute; 0 or less for no limit

	Bare bool // without /api/v1/limits: a server that mounts nothing has only health, readiness and metrics

	Metrics  http.Handler                                                  // answers GET /metrics; nil for nothing there
	Answered func(method, route string, status int, took time.Duration)    // called for each request; nil for no call
	Traced   func(ctx context.Context, traceparent string) context.Context // makes a request part of its client's trace; nil for none
}

func (c Config) withDefaults() Config {
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:8080")
	c.Body = cmp.Or(c.Body, 2<<20)
	c.Input = cmp.Or(c.Input, 32<<20)
	c.Header = cmp.Or(c.Header, 16<<10)
	c.HeadTimeout = cmp.Or(c.HeadTimeout, 10*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, time.Minute)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 5*time.Minute)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 2*time.Minute)
	return c
}

// Server serves the mounted transports. Create it with New, call Serve, and Shutdown at the end.
type Server struct {
	cfg      Config
	app      *fiber.App
	routes   []Route
	stopping atomic.Bool
	refused  refusals
	unready  refusals           // failed checks of readiness, likewise
	checks   singleflight.Group // the checks of readiness
	visits   *visits            // the requests of other servers: see ServeHTTP
	terms    *auth.Terms        // the open streams of accounts' credentials
	guesses  *auth.Guesses      // wrong credentials; nil for no limit

	ending context.Context         // ends requests that Shutdown must not wait for any longer
	end    context.CancelCauseFunc // of ending

	mu   sync.Mutex // guards the fields below
	addr string
	ln   *stream.Listener // nil before Serve
}

// New checks cfg and mounts the transports.
func New(cfg Config, mounts ...Mounter) (*Server, error) {
	cfg = cfg.withDefaults()
	if cfg.Runtime == nil || cfg.Streams == nil {
		return nil, errors.New("transports: Config.Runtime and Config.Streams must be set")
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("transports: Config.Listen: %w", err)
	}
	safe := cfg.Insecure || cfg.Accounts != nil && cfg.TLS != nil
	if addr, err := netip.ParseAddr(host); !safe && host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		return nil, fmt.Errorf("transports: other machines reach %s, which takes Config.Accounts and Config.TLS; Config.Insecure allows it without", cfg.Listen)
	}
	s := &Server{cfg: cfg, terms: auth.NewTerms(cfg.Accounts, cfg.Log), guesses: auth.NewGuesses(cfg.Guesses, cfg.Proxies.Has, cfg.Log)}
	s.ending, s.end = context.WithCancelCause(context.Background())
	s.visits = newVisits(stream.NewListener(nil, s.listening()))
	s.app = fiber.New(fiber.Config{
		ErrorHandler:                 s.fail,
		JSONEncoder:                  wire.Encode,
		Immutable:                    true,
		CaseSensitive:                true,
		ReadBufferSize:               cfg.Header,
		ReadTimeout:                  cfg.HeadTimeout,
		WriteTimeout:                 cfg.WriteTimeout, // hijacked streams have their own
		IdleTimeout:                  cfg.IdleTimeout,
		DisablePreParseMultipartForm: true,
		ReduceMemoryUsage:            true, // otherwise each stream keeps a read buffer of Header bytes
		DisableStartupMessage:        true,
	})
	web := s.app.Server()
	web.Handler = s.answering(web.Handler)
	web.HeaderReceived = announce
	web.ConnState = watchState
	web.CloseOnShutdown = true
	web.Logger = discreet{cfg.Log}
	browser := auth.Browser{Listen: cfg.Listen, Hosts: cfg.Hosts, Origins: cfg.Origins, Credentials: cfg.Cookies}
	s.app.Use(cfg.Proxies.Handler(secured), s.measure, s.guard, browser.Handler())
	who := auth.Everybody(cfg.Insecure)
	if cfg.Accounts != nil {
		who = auth.Callers(cfg.Accounts, s.terms, s.guesses, original, cfg.Log)
	}
	s.routes = []Route{
		{Method: fiber.MethodGet, Path: "/healthz", Public: s.health},
		{Method: fiber.MethodGet, Path: "/readyz", Public: s.ready},
	}
	if !cfg.Bare {
		s.routes = append(s.routes, Route{Method: fiber.MethodGet, Path: "/api/v1/limits", Known: s.limits})
	}
	if cfg.Metrics != nil {
		show := adaptor.HTTPHandler(cfg.Metrics)
		s.routes = append(s.routes, Route{
			Method: fiber.MethodGet, Path: "/metrics", Known: func(c *fiber.Ctx, _ runtime.Caller) error { return show(c) },
		})
	}
	for _, m := range mounts {
		s.routes = append(s.routes, m.Routes()...)
	}
	return s, s.mount(who)
}

// Routes are the routes that are mounted, as "GET /healthz".
func (s *Server) Routes() []string {
	var routes []string
	for _, r := range s.app.GetRoutes(true) {
		routes = append(routes, r.Method+" "+r.Path)
	}
	return routes
}

// Listen opens Config.Listen; hand the listener to Serve.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen)
	if err == nil {
		s.setAddr(ln)
	}
	return ln, err
}

// Serve answers requests that come in on ln, which it closes. It returns nil soon after Shutdown was called;
// Shutdown returns later, when the last answer was given.
func (s *Server) Serve(ln net.Listener) error {
	s.setAddr(ln)
	cfg := s.listening()
	cfg.Idle = s.cfg.IdleTimeout
	cfg.TLS, cfg.Handshake = s.cfg.TLS, s.cfg.HeadTimeout
	cfg.Serve = func(c net.Conn) {
		if err := s.app.Server().ServeConn(c); err != nil {
			discreet{s.cfg.Log}.Printf("", err)
		}
	}
	own := stream.NewListener(ln, cfg)
	s.mu.Lock()
	s.ln = own
	s.mu.Unlock()
	if s.stopping.Load() {
		return own.Close()
	}
	return s.app.Listener(own)
}

// EndCredential ends at once the streams that a credential, by its id, has opened. It is optional after a revocation: a Watcher
// is asked each minute.
func (s *Server) EndCredential(id string) { s.terms.End(id) }

// CheckCredentials asks the Watcher now about the credentials of open streams for which which returns true, instead of within a
// minute, and ends the streams of those that have ended. It blocks for as long as the Watcher does.
func (s *Server) CheckCredentials(ctx context.Context, which func(id string) bool) {
	s.terms.Check(ctx, which)
}

// listening returns the configuration of listeners.
func (s *Server) listening() stream.ListenerConfig {
	return stream.ListenerConfig{
		Log: s.cfg.Log, Conns: s.cfg.Conns, PerPeer: s.cfg.PeerConns, Exempt: s.cfg.Proxies.Has,
		Message: s.cfg.ReadTimeout, Slack: s.cfg.Slack, Rate: s.cfg.Rate,
	}
}

// Addr is the address served on, "" before Listen or Serve.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

func (s *Server) setAddr(ln net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addr = ln.Addr().String()
}

// Shutdown closes the listener, ends the open streams and waits for requests in progress, until ctx is done but for at least a
// second, so that a runtime that used up ctx does not cost clients the last frames. It gives up requests that have not
// arrived before, and soon those that stream their bodies elsewhere. Shut the runtime down first (see the package comment).
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := stream.Farewells(ctx)
	defer cancel()
	s.stopping.Store(true)
	s.mu.Lock()
	ln := s.ln
	s.mu.Unlock()
	if ln != nil {
		ln.Hurry()
	}
	s.visits.conns.Hurry()
	s.terms.Close()
	end := func() { s.end(runtime.ErrStopping) }
	defer end() // ends requests that are still carried
	defer time.AfterFunc(carried, end).Stop()
	closed := make(chan error, 1)
	go func() { closed <- s.app.ShutdownWithContext(ctx) }() // ends with ctx at the latest
	err := s.cfg.Streams.Shutdown(ctx)
	err = errors.Join(err, <-closed, s.visits.end(ctx))
	if ln != nil {
		_ = ln.Close() // which fiber does not know yet when it has just been given it
	}
	return err
}

// carried is the time a stopping server waits for requests that stream their bodies, whose destination may not respond.
const carried = 5 * time.Second

// guard turns panics into errors. It refuses requests that another server may have parsed differently, and once the server
// stops all but reads: a stream must be answered with a request to reconnect.
func (s *Server) guard(c *fiber.Ctx) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanicError(v)
		}
	}()
	secure(c)
	if err := unambiguous(&c.Request().Header); err != nil {
		c.Context().SetConnectionClose()
		return err
	}
	if s.stopping.Load() && c.Method() != fiber.MethodGet && c.Method() != fiber.MethodHead && c.Method() != fiber.MethodOptions {
		return runtime.ErrStopping
	}
	return c.Next()
}
