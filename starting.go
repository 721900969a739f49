package baton

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	storageadmin "github.com/batonrun/baton/storage/admin"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/admin"
)

// open opens the database. A server that listens waits for one that is away, slow or out of space.
func (s *Server) open(ctx context.Context) (*storage.DB, error) {
	const between = 500 * time.Millisecond
	for logged := (time.Time{}); ; {
		db, err := openDatabase(ctx, &s.cfg)
		if err == nil || s.ln == nil || !storage.Passes(err) || ctx.Err() != nil {
			return db, err
		}
		s.ready.Store(func(context.Context) error { return err })
		if now := time.Now(); now.Sub(logged) >= time.Minute {
			logged = now
			s.cfg.Log.Error("the server waits for its database", "error", err, "help", "baton doctor checks the database")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(between):
		}
	}
}

// isReady returns why the server cannot serve now.
func (s *Server) isReady(ctx context.Context) error {
	if ready, ok := s.ready.Load().(func(context.Context) error); ok {
		return ready(ctx)
	}
	return runtime.ErrUnstarted
}

// errWaiting is what clients learn of an error that Start waits out, whose text may have addresses and names.
var errWaiting = &runtime.Error{
	Kind: runtime.KindUnavailable, Code: "unavailable", RetryAfter: time.Second, Detail: "The server waits for its database; the log says more",
}

// unstarted answers requests before Start has returned.
func (s *Server) unstarted(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintln(w, `{"status":"ok"}`)
		return
	}
	err := s.isReady(r.Context())
	if err == nil { // in a moment
		err = runtime.ErrUnstarted
	}
	if _, ok := errors.AsType[*runtime.Error](err); !ok {
		err = errWaiting
	}
	transports.Refuse(w, err)
}

// slowStart is how long connections wait for a start before probes are answered in its place.
const slowStart = time.Second

// serveUnstarted answers probes on Config.Listen if the start is slow, until the caller calls hand: then the listener can be served by others,
// with the connections that it has not accepted. It hangs up on other requests: a browser's EventSource gives up at a 503, and connects
// again after a lost connection.
func (s *Server) serveUnstarted() (hand func()) {
	if s.ln == nil {
		return func() {}
	}
	ln := net.Listener(lent{s.ln})
	if s.tls != nil {
		ln = tls.NewListener(ln, s.tls)
	}
	probes := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			panic(http.ErrAbortHandler)
		}
		s.unstarted(w, r)
	}
	web := &http.Server{Handler: http.HandlerFunc(probes), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug)}
	web.SetKeepAlivesEnabled(false)
	started := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() { // ends with hand
		select {
		case <-started:
		case <-time.After(slowStart):
			_ = web.Serve(ln)
		}
	})
	return sync.OnceFunc(func() {
		close(started)
		accepts := s.ln.(interface{ SetDeadline(time.Time) error }) //nolint:forcetypeassert // it is a *net.TCPListener
		_ = accepts.SetDeadline(time.Unix(1, 0))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if web.Shutdown(ctx) != nil {
			_ = web.Close()
		}
		serving.Wait()
		_ = accepts.SetDeadline(time.Time{})
	})
}

// lent is a listener that its user does not close.
type lent struct{ net.Listener }

func (lent) Close() error { return nil }

// serveAdmin serves the admin listener, before the database is there too.
func (s *Server) serveAdmin() {
	s.admin = admin.New(admin.Config{Metrics: s.watch.Handler(), Ready: s.isReady, Unwell: s.unwell, Hosts: s.cfg.Hosts, Log: s.cfg.Log})
	s.tidying.Go(func() { // ends with Shutdown
		if err := s.admin.Serve(s.adminLn); err != nil {
			s.cfg.Log.Error("the admin listener failed", "error", err)
		}
	})
}

// occupied returns err, with which listening has failed, and names the server that has the SQLite file: most likely it has the address, too.
func (s *Server) occupied(err error) error {
	if strings.HasPrefix(s.cfg.Database, "sqlite:") {
		if addr, held, lookErr := storageadmin.LockHolder(s.cfg.Database); lookErr == nil && held {
			return fmt.Errorf("%w: it listens on %s; %w", storage.ErrLocked, addr, err)
		}
	}
	return err
}
