package baton

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/admin"
	"github.com/batonrun/baton/transports/auth/apikey"
	"github.com/batonrun/baton/transports/keys"
	"github.com/batonrun/baton/transports/telemetry/metrics"
)

// Server is a Baton that serves: database, engine and routes, wired. Its methods may be called from several
// goroutines.
type Server struct {
	db      *storage.DB
	blobs   io.Closer // what keeps attachments; nil before it is opened
	rt      *runtime.Runtime
	keys    *apikey.Keys // those of db
	ln      net.Listener // nil without Config.Listen
	secure  bool         // TLS is spoken on it
	web     *transports.Server
	served  chan error // what ended web
	watch   *metrics.Metrics
	admin   *admin.Server // nil without Config.AdminListen
	adminLn net.Listener  // likewise

	once    sync.Once      // of Shutdown
	tidying sync.WaitGroup // what runs beside web
	untidy  context.CancelFunc
}

// New opens the database, listens if it is told to, takes up the runs that an earlier server left, and serves.
// While another server has the database it fails with storage.ErrLocked on SQLite; on PostgreSQL it stands by, and
// does the rest later (see Config.Takeover). The caller calls Run, or Shutdown or Close at the end; ctx is for the
// opening alone.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	cfg = cfg.withDefaults()
	if cfg.APIKeys && cfg.Accounts != nil {
		return nil, errors.New("baton: Config.APIKeys and Config.Accounts both say who sent a request; set one")
	}
	every, err := time.ParseDuration(tidyEvery)
	if err != nil {
		return nil, err
	}
	reg, err := newRegistry(cfg.Plugins)
	if err != nil {
		return nil, err
	}
	s := &Server{secure: cfg.TLS != (TLS{}), served: make(chan error, 1), watch: metrics.New(cfg.Version)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abort(ctx))
		}
	}()
	if s.db, err = openDatabase(ctx, &cfg); err != nil {
		return nil, err
	}
	if cfg.Listen != "" {
		if s.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen); err != nil {
			return nil, err
		}
		if err = s.db.SetAddr(s.Addr()); err != nil {
			return nil, err
		}
	}
	if cfg.AdminListen != "" {
		if s.adminLn, err = admin.Listen(ctx, cfg.AdminListen); err != nil {
			return nil, err
		}
	}
	var files *attach.Files
	files, s.blobs = newFiles(&cfg, s.db)
	if s.rt, err = newRuntime(&cfg, reg, s.db, files, s.Addr(), s.watch); err != nil {
		return nil, err
	}
	s.keys = apikey.NewKeys(s.db)
	accounts, admins := cfg.Accounts, keys.Transport{}
	if cfg.APIKeys {
		accounts, admins = s.keys, keys.Transport{Ledger: s.db, Secrets: s.rt, Ended: s.revoked}
	}
	if s.web, err = newWeb(&cfg, s.rt, s.db, files, accounts, s.watch, admins); err != nil {
		return nil, err
	}
	if err = s.rt.Start(ctx); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if s.ln != nil {
		go func() { s.served <- s.web.Serve(s.ln) }() // ends with Shutdown
	}
	if s.adminLn != nil {
		s.admin = admin.New(admin.Config{Metrics: s.watch.Handler(), Ready: s.rt.Ready, Hosts: cfg.Hosts, Log: cfg.Log})
		s.tidying.Go(func() { // likewise
			if err := s.admin.Serve(s.adminLn); err != nil {
				cfg.Log.Error("the admin listener has ended", "error", err)
			}
		})
	}
	ctx, s.untidy = context.WithCancel(context.WithoutCancel(ctx))
	s.tidying.Go(func() { tidy(ctx, every, s.rt, s.db, *cfg.Retention, cfg.Log) }) // likewise
	return s, nil
}

// abort closes what New has opened when it fails.
func (s *Server) abort(ctx context.Context) error {
	var errs []error
	if s.rt != nil {
		errs = append(errs, s.rt.Shutdown(ended(ctx)))
	}
	for _, ln := range []net.Listener{s.ln, s.adminLn} {
		if ln != nil {
			errs = append(errs, ln.Close())
		}
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// Handler answers requests that a server of net/http has taken. Baton's paths are /api/, /mcp, /openapi.json,
// /docs, /healthz, /readyz and /metrics; give it those that are wanted, as they are. Streams are live, WebSockets work over
// HTTP/1.1, and a run ends when the client that asked for it has left, as on Baton's own listener. See
// docs/embedding.md for what that costs and what the program's server must not do.
//
// Shut Baton down before that server, which else waits for streams that do not end.
func (s *Server) Handler() http.Handler { return s.web.Handler() }

// Fiber answers requests that a fiber program has taken, at no cost: app.Use("/api", srv.Fiber()). The paths
// are those of Handler. What the program's fiber.Config says about bodies and timeouts holds for Baton too.
func (s *Server) Fiber() fiber.Handler { return s.web.Fiber() }

// Runtime is the engine: with it the program itself starts, reads and cancels runs.
func (s *Server) Runtime() *runtime.Runtime { return s.rt }

// Replace offers these plugins from now on, in the place of Config.Plugins. Runs that are at work are not disturbed, and
// when it fails nothing has changed: see [runtime.Runtime.Replace].
func (s *Server) Replace(ctx context.Context, list ...plugins.Plugin) error {
	reg, err := newRegistry(list)
	if err != nil {
		return err
	}
	return s.rt.Replace(ctx, reg)
}

// Metrics answers with the server's metrics in Prometheus's format, for programs that show them on a route of their own.
func (s *Server) Metrics() http.Handler { return s.watch.Handler() }

// AdminAddr is the host and port of Config.AdminListen, "" when that is empty.
func (s *Server) AdminAddr() string {
	if s.adminLn == nil {
		return ""
	}
	return s.adminLn.Addr().String()
}

// Addr is the host and port at which a program on this machine reaches Config.Listen, "" when that is empty.
func (s *Server) Addr() string {
	if s.ln == nil {
		return ""
	}
	return transports.Dialable(s.ln.Addr().String())
}

// URL is Addr with http:// before it, or https:// with Config.TLS, "" when there is none.
func (s *Server) URL() string {
	if s.ln == nil {
		return ""
	}
	if s.secure {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Run waits until ctx ends and then shuts the server down, letting runs at work end for Timeouts.Drain. When
// the server cannot go on it closes it at once and fails.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Wait(ctx); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Shutdown(context.WithoutCancel(ctx))
}

// Wait returns nil when ctx ends, and an error when the server cannot go on: then it should be closed at once. The error
// wraps runtime.ErrFenced when another server has the database now.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.rt.Fenced():
		if err := s.rt.Err(); !errors.Is(err, runtime.ErrFenced) {
			return err
		}
		return fmt.Errorf("another server has the database now, or it is not the one it was: %w", runtime.ErrFenced)
	case err := <-s.served:
		return fmt.Errorf("serve: %w", err)
	}
}

// Shutdown takes no more runs, lets those at work end for Timeouts.Drain or until ctx ends, releases the others
// to the next start, ends the streams, and closes server and database. Called again it does nothing.
func (s *Server) Shutdown(ctx context.Context) (err error) {
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

// Close is Shutdown that waits for no run: those at work go on at the next start.
func (s *Server) Close() error { return s.Shutdown(ended(context.Background())) }

// ended returns a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
