package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

// engine is a database and a runtime of this process, without a server.
type engine struct {
	db *storage.DB
	rt *runtime.Runtime
}

// startEngine starts an engine, which has the database for itself until it is closed.
func startEngine(ctx context.Context, cfg config.Config, log *slog.Logger, list []plugins.Plugin) (*engine, error) {
	cfg.Timeouts.Grace = min(cfg.Timeouts.Grace, time.Second) // what does not stop ends with the process
	db, err := openDatabase(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	rt, err := startRuntime(ctx, cfg, db, "", log, list)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &engine{db, rt}, nil
}

// close releases what runs in the database to the next server.
func (e *engine) close(ctx context.Context) error {
	return errors.Join(e.rt.Shutdown(ended(ctx)), e.db.Close())
}

// openDatabase opens the configured database for a server, with this version's schema.
func openDatabase(ctx context.Context, cfg config.Config, log *slog.Logger) (*storage.DB, error) {
	return storage.Open(ctx, storage.Config{URL: cfg.Database, Serve: true, Migrate: true, Log: log})
}

// startRuntime starts the engine on db. Clients reach it at addr, which may be empty.
func startRuntime(ctx context.Context, cfg config.Config, db *storage.DB, addr string, log *slog.Logger, list []plugins.Plugin) (*runtime.Runtime, error) {
	reg := new(plugins.Registry)
	if err := reg.Add(list...); err != nil {
		return nil, err
	}
	if err := reg.Validate(); err != nil {
		return nil, err
	}
	rt, err := runtime.New(runtime.Config{
		Store: db, Registry: reg, Log: log, Addr: addr,

		Runs:           cfg.Limits.Runs,
		RunsPerAgent:   cfg.Limits.RunsPerAgent,
		RunsPerProject: cfg.Limits.RunsPerProject,
		RunsPerUser:    cfg.Limits.RunsPerUser,
		QueueDepth:     cfg.Limits.Queue,
		MessageBytes:   int(cfg.Limits.Messages),

		StepTimeout: cfg.Timeouts.Step,
		RunTimeout:  cfg.Timeouts.Run,
		ToolTimeout: cfg.Timeouts.Tool,
		Grace:       cfg.Timeouts.Grace,
		Drain:       cfg.Timeouts.Drain,

		CommitInterval: cfg.Commit.Interval,
		QueueRunBytes:  int(cfg.Commit.QueueRun),
		QueueBytes:     int(cfg.Commit.Queue),
		BatchEvents:    cfg.Commit.BatchEvents,
		BatchBytes:     int(cfg.Commit.BatchBytes),

		RingEvents: cfg.Stream.RingEvents,
		RingBytes:  int(cfg.Stream.RingBytes),
		RingsBytes: int(cfg.Stream.Rings),
	})
	if err != nil {
		return nil, err
	}
	if err := rt.Start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start: %w", err), rt.Shutdown(ended(ctx)))
	}
	return rt, nil
}

// ended returns a context that has ended, for a Shutdown that waits for no run.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
