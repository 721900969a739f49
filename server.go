package baton

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/prometheus/client_golang/prometheus" //nolint:depguard // Collector returns one to the program

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/admin"
	"github.com/batonrun/baton/transports/auth/apikey"
	"github.com/batonrun/baton/transports/certs"
	"github.com/batonrun/baton/transports/keys"
	"github.com/batonrun/baton/transports/telemetry/metrics"
)

// Server is a Baton server. New makes it, Start opens it, and Run does both and waits. Several goroutines may call its methods;
// those that need the database or the routes may be called once Start has returned.
type Server struct {
	cfg   Config
	reg   *host.Registry
	tls   *tls.Config   // nil for plain HTTP
	tidy  time.Duration // between two runs of the janitor
	watch *metrics.Metrics

	db      *storage.DB
	blobs   io.Closer // storage of attachments
	rt      *runtime.Runtime
	keys    *apikey.Keys
	ln      net.Listener // nil without Config.Listen
	web     *transports.Server
	doors   atomic.Pointer[doors] // of web, once Start has returned
	served  chan error            // receives the error that ended web
	admin   *admin.Server         // nil without Config.AdminListen
	adminLn net.Listener          // nil without Config.AdminListen

	started atomic.Bool
	ready   atomic.Value   // a func(context.Context) error: why the server cannot serve now
	once    sync.Once      // guards Shutdown
	tidying sync.WaitGroup // counts the janitor and the admin server
	untidy  context.CancelFunc
}

// New checks cfg, its plugins and its TLS files. It opens nothing: a Server that is not started needs no Shutdown.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if cfg.Role != "" && cfg.Role != RoleGateway && cfg.Role != RoleWorker {
		return nil, fmt.Errorf("baton: Config.Role: there is no role %q", cfg.Role)
	}
	if cfg.Role != "" && strings.HasPrefix(cfg.Database, "sqlite:") {
		return nil, errors.New("baton: Config.Role: the only server of a SQLite file does everything")
	}
	if cfg.APIKeys && cfg.Accounts != nil {
		return nil, errors.New("baton: Config.APIKeys and Config.Accounts both authenticate requests; set one")
	}
	for name, addr := range map[string]string{"Listen": cfg.Listen, "AdminListen": cfg.AdminListen} {
		if _, _, err := net.SplitHostPort(addr); addr != "" && err != nil {
			return nil, fmt.Errorf("baton: Config.%s: %w", name, err)
		}
	}
	s := &Server{cfg: cfg, served: make(chan error, 1), watch: metrics.New(cfg.Version)}
	var err error
	if s.tidy, err = time.ParseDuration(tidyEvery); err != nil {
		return nil, err
	}
	if s.reg, err = newRegistry(cfg.Plugins); err != nil {
		return nil, err
	}
	if names := plugins.Excluding(cfg.Plugins); len(names) > 0 && !cfg.hasAccounts() {
		cfg.Log.Warn("anybody may give the approvals of some plugins: there are no accounts, which they need to tell people apart", "plugins", names)
	}
	if cfg.TLS != (TLS{}) {
		files, err := certs.Load(cfg.TLS.CertFile, cfg.TLS.KeyFile, cfg.Log)
		if err != nil {
			return nil, fmt.Errorf("baton: Config.TLS: %w", err)
		}
		s.tls = files.Config()
	}
	return s, nil
}

// Start listens, opens the database, resumes the runs that an earlier server left, and serves. It waits for a database that is away, slow or
// out of space if it listens: GET /healthz and /readyz answer meanwhile. It fails if the database is damaged, may not be written or is not
// Baton's, and on SQLite with storage.ErrLocked while another server uses it. On PostgreSQL both then serve it: see docs/cluster.md. Ctx
// limits Start alone. Call Run, Shutdown or Close at the end; after an error nothing is open. A Server starts once.
func (s *Server) Start(ctx context.Context) (err error) {
	if s.started.Swap(true) {
		return errors.New("baton: the server was started before")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abort(ctx))
		}
	}()
	cfg := &s.cfg
	if cfg.Listen != "" {
		if s.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return s.occupied(err)
		}
	}
	if cfg.AdminListen != "" {
		if s.adminLn, err = admin.Listen(ctx, cfg.AdminListen); err != nil {
			return s.occupied(err)
		}
		s.serveAdmin()
	}
	hand := s.serveUnstarted()
	defer hand()
	if s.db, err = s.open(ctx); err != nil {
		return err
	}
	if s.ln != nil {
		if err = s.db.Registry.SetAddr(s.Addr()); err != nil {
			return err
		}
	}
	var files *attach.Files
	files, s.blobs = newFiles(cfg, s.db)
	if s.rt, err = newRuntime(ctx, cfg, s.reg, s.db, files, s.Addr(), s.watch, s.checkRevoked); err != nil {
		return err
	}
	s.keys = apikey.NewKeys(s.db.Accounts)
	accounts, admins := cfg.Accounts, keys.Transport{}
	if cfg.APIKeys {
		accounts, admins = s.keys, keys.Transport{Ledger: s.db.Accounts, Secrets: s.rt.Secrets, Ended: s.revoked}
	}
	if s.web, err = newWeb(cfg, s.tls, s.rt, s.db, files, accounts, s.watch, admins); err != nil {
		return err
	}
	s.ready.Store(s.rt.Ready)
	if err = s.rt.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	hand()
	if s.ln != nil {
		go func() { s.served <- s.web.Serve(s.ln) }() // ends with Shutdown
	}
	ctx, s.untidy = context.WithCancel(context.WithoutCancel(ctx))
	s.tidying.Go(func() { // ends with Shutdown
		s.rt.Plugins().Await(ctx, "*")
		for name, why := range s.rt.Plugins().Unwell() {
			cfg.Log.Warn("a plugin needs attention", "plugin", name, "why", why)
		}
	})
	if cfg.Servers != nil && s.db.Shared() {
		s.tidying.Go(func() { s.countServers(ctx) }) // ends with Shutdown
	}
	s.tidying.Go(func() { tidy(ctx, s.tidy, s.rt, s.db, *cfg.Retention, cfg.Log) }) // ends with Shutdown
	s.doors.Store(&doors{s.web.Handler(), s.web.Fiber()})
	return nil
}

// countServers reports how many servers of the cluster execute runs, until ctx ends.
func (s *Server) countServers(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n := s.rt.Fleet().Count().Runs; n != last {
			last = n
			s.cfg.Servers(n)
		}
	}
}

// unwell returns a line about each plugin that needs attention.
func (s *Server) unwell() (lines []string) {
	if s.doors.Load() == nil {
		return nil
	}
	for name, why := range s.rt.Plugins().Unwell() {
		lines = append(lines, name+": "+why)
	}
	slices.Sort(lines)
	return lines
}

// abort closes the resources of a Start that fails.
func (s *Server) abort(ctx context.Context) error {
	var errs []error
	if s.rt != nil {
		errs = append(errs, s.rt.Shutdown(ended(ctx)))
	}
	if s.ln != nil {
		errs = append(errs, s.ln.Close())
	}
	if s.admin != nil {
		errs = append(errs, s.admin.Close())
		s.tidying.Wait()
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	s.once.Do(func() {}) // so that Shutdown does nothing
	return errors.Join(errs...)
}

// Handler serves Baton's routes in a net/http server. Baton's paths are /api/, /mcp, /openapi.json, /docs, /healthz, /readyz and
// /metrics; mount the ones you want unchanged. Streams are live, WebSockets work over HTTP/1.1, and a run is cancelled when its
// client disconnects, as on Baton's own listener. docs/embedding.md describes the cost and the rules for the program's server.
//
// Shut Baton down before that server, which otherwise waits for streams that do not end. Handler may be mounted before Start; until Start
// has returned, GET /healthz answers and other requests get 503.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := s.doors.Load(); h != nil {
			if parent := s.parent(r.Context()); parent != "" {
				r = r.Clone(r.Context())
				r.Header.Set("Traceparent", parent)
			}
			h.net.ServeHTTP(w, r)
			return
		}
		s.unstarted(w, r)
	})
}

// Fiber serves Baton's routes in a fiber app, without overhead: app.Use("/api", srv.Fiber()). The paths are those of Handler. The
// limits on bodies and the timeouts of the app's fiber.Config apply to Baton, too. Until Start has returned, they are as with Handler.
func (s *Server) Fiber() fiber.Handler {
	return func(c *fiber.Ctx) error {
		if h := s.doors.Load(); h != nil {
			if parent := s.parent(c.UserContext()); parent != "" {
				c.Request().Header.Set("Traceparent", parent)
			}
			return h.fiber(c)
		}
		return adaptor.HTTPHandlerFunc(s.unstarted)(c)
	}
}

// parent returns the span of ctx that the program's middleware has begun, "" for none.
func (s *Server) parent(ctx context.Context) string {
	if s.cfg.Tracer == nil {
		return ""
	}
	return s.cfg.Tracer.Parent(ctx)
}

// doors are the handlers of a started server.
type doors struct {
	net   http.Handler
	fiber fiber.Handler
}

// Runtime returns the engine. It is for Baton's own packages and may change; programs use the methods of Server.
func (s *Server) Runtime() *runtime.Runtime { return s.rt }

// Replace replaces Config.Plugins. Running runs keep their plugins. A plugin that is equal to one before, by ==, stays open;
// values that cannot be compared are closed and opened again. When Replace fails, nothing changes.
func (s *Server) Replace(ctx context.Context, list ...plugins.Plugin) error {
	reg, err := newRegistry(list)
	if err != nil {
		return err
	}
	return s.rt.Replace(ctx, reg)
}

// Metrics serves the server's metrics in Prometheus's format, for programs that mount them themselves.
func (s *Server) Metrics() http.Handler { return s.watch.Handler() }

// Collector returns the server's metrics for the program's own Prometheus registry, without those of Go and of the process, which such a
// registry has itself.
func (s *Server) Collector() prometheus.Collector { return s.watch.Collector() }

// AdminAddr returns the host and port of Config.AdminListen, "" when that is empty.
func (s *Server) AdminAddr() string {
	if s.adminLn == nil {
		return ""
	}
	return s.adminLn.Addr().String()
}

// Addr returns the host and port under which programs on this machine reach Config.Listen, "" when that is empty.
func (s *Server) Addr() string {
	if s.ln == nil {
		return ""
	}
	return transports.Dialable(s.ln.Addr().String())
}

// URL returns Addr with http:// in front, or https:// with Config.TLS, "" when Config.Listen is empty.
func (s *Server) URL() string {
	if s.ln == nil {
		return ""
	}
	if s.tls != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Run starts the server, unless Start has, waits until ctx ends, and shuts the server down: running runs have Timeouts.Drain to
// finish. When the server cannot continue, Run closes it immediately and returns the error.
func (s *Server) Run(ctx context.Context) error {
	if !s.started.Load() {
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	if err := s.Wait(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Shutdown(context.WithoutCancel(ctx))
}

// Wait returns nil when ctx ends, and an error when the server cannot continue: close it then. The error wraps runtime.ErrFenced
// when another server has taken its runs over.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.rt.Member.Fenced():
		if err := s.rt.Member.Err(); !errors.Is(err, runtime.ErrFenced) {
			return err
		}
		return fmt.Errorf("another server has taken the runs of this one over, or the database was restored to an earlier state: %w", runtime.ErrFenced)
	case err := <-s.served:
		return fmt.Errorf("serve: %w", err)
	}
}

// Shutdown accepts no more runs, and gives running ones Timeouts.Drain, or until ctx ends, to finish. The others resume at the
// next start. Then it ends the streams, and closes server and database. A second call, and one without Start, does nothing.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	if !s.started.Load() {
		return nil
	}
	s.once.Do(func() {
		s.untidy()
		err = errors.Join(s.rt.Shutdown(ctx), s.web.Shutdown(ctx))
		if s.admin != nil {
			err = errors.Join(err, s.admin.Close())
		}
		s.tidying.Wait()
		err = errors.Join(err, s.blobs.Close(), s.db.Close())
	})
	return err
}

// Close is Shutdown without waiting for runs: running ones resume at the next start.
func (s *Server) Close() error { return s.Shutdown(ended(context.Background())) }

// ended returns a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
