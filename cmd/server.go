package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
)

// Server is a Baton that serves: database, runtime and transports, wired.
type Server struct {
	db     *storage.DB
	rt     *runtime.Runtime
	ln     net.Listener
	web    *transports.Server
	served chan error // what ended web

	once    sync.Once // of Shutdown
	tidying sync.WaitGroup
	untidy  context.CancelFunc
}

// Start opens the database, listens, takes up the runs that an earlier server left, and serves. Listening on
// port 0 takes any free port. It fails with storage.ErrLocked when another server has the database. The
// caller calls Shutdown.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger, list ...plugins.Plugin) (_ *Server, err error) {
	s := &Server{served: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abort(ctx))
		}
	}()
	if s.db, err = openDatabase(ctx, cfg, log); err != nil {
		return nil, err
	}
	if s.ln, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, err
	}
	if s.rt, err = startRuntime(ctx, cfg, s.db, s.Addr(), log, list); err != nil {
		return nil, err
	}
	if s.web, err = newWeb(cfg, s.rt, log); err != nil {
		return nil, err
	}
	go func() { s.served <- s.web.Serve(s.ln) }() // ends with Shutdown
	ctx, s.untidy = context.WithCancel(context.WithoutCancel(ctx))
	s.tidying.Go(func() { s.tidy(ctx, log) }) // likewise
	return s, nil
}

// tidy has old events sealed now and then, and idempotency keys forgotten that nobody may use any more.
func (s *Server) tidy(ctx context.Context, log *slog.Logger) {
	const every = 5 * time.Minute
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			n, err := s.db.Seal(ctx, now)
			if err != nil && ctx.Err() == nil {
				log.Warn("old events were not sealed", "error", err)
			} else if n > 0 {
				log.Debug("sealed old events", "events", n)
			}
			if err := s.db.ForgetKeys(ctx, now.Add(-runtime.KeyLifetime)); err != nil && ctx.Err() == nil {
				log.Warn("old idempotency keys were not forgotten", "error", err)
			}
		}
	}
}

// abort closes what Start has opened when it fails.
func (s *Server) abort(ctx context.Context) error {
	var errs []error
	if s.rt != nil {
		errs = append(errs, s.rt.Shutdown(ended(ctx)))
	}
	if s.ln != nil {
		errs = append(errs, s.ln.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// Addr is the host and port at which a program on this machine reaches the server.
func (s *Server) Addr() string { return dialable(s.ln.Addr().String()) }

// URL is Addr with http:// before it.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Wait returns nil when ctx ends, and an error when the server cannot go on: then it should end at once.
func (s *Server) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.rt.Fenced():
		return errors.New("another server has taken over the database")
	case err := <-s.served:
		return fmt.Errorf("serve: %w", err)
	}
}

// Shutdown takes no more runs, lets those at work end for timeouts.drain or until ctx ends, releases the
// others to the next start, ends the streams, and closes server and database. Called again it does nothing.
func (s *Server) Shutdown(ctx context.Context) (err error) {
	s.once.Do(func() {
		s.untidy()
		err = errors.Join(s.rt.Shutdown(ctx), s.web.Shutdown(ctx))
		s.tidying.Wait()
		err = errors.Join(err, s.db.Close())
	})
	return err
}
