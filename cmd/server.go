package cmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
)

// Server is what Start has started.
type Server = baton.Server

// Start starts a server with the settings. The caller shuts it down.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger, list ...plugins.Plugin) (*Server, error) {
	return baton.New(ctx, settings(cfg, log, list))
}

// startEngine starts a server that nobody can reach but this process, which has the database for itself until
// it is closed.
func startEngine(ctx context.Context, cfg config.Config, log *slog.Logger, list []plugins.Plugin) (*baton.Server, error) {
	cfg.Listen, cfg.AdminListen = "", ""
	cfg.Timeouts.Grace = min(cfg.Timeouts.Grace, time.Second) // what does not stop ends with the process
	return baton.New(ctx, settings(cfg, log, list))
}

// settings are the settings as package baton has them.
func settings(cfg config.Config, log *slog.Logger, list []plugins.Plugin) baton.Config {
	return baton.Config{
		Plugins:     list,
		Database:    cfg.Database,
		Takeover:    cfg.Takeover,
		KeepEdits:   cfg.KeepEdits,
		Listen:      cfg.Listen,
		AdminListen: cfg.AdminListen,
		Insecure:    cfg.Insecure,
		Hosts:       cfg.Hosts,
		Origins:     cfg.Origins,
		Log:         log,
		Version:     buildVersion(),
		Limits: baton.Limits{
			Runs:           cfg.Limits.Runs,
			RunsPerAgent:   cfg.Limits.RunsPerAgent,
			RunsPerProject: cfg.Limits.RunsPerProject,
			RunsPerUser:    cfg.Limits.RunsPerUser,
			Queue:          cfg.Limits.Queue,
			Body:           int(cfg.Limits.Body),
			Input:          int(cfg.Limits.Input),
			Messages:       int(cfg.Limits.Messages),
		},
		Timeouts: baton.Timeouts(cfg.Timeouts),
		Commit: baton.Commit{
			Interval:    cfg.Commit.Interval,
			QueueRun:    int(cfg.Commit.QueueRun),
			Queue:       int(cfg.Commit.Queue),
			BatchEvents: cfg.Commit.BatchEvents,
			BatchBytes:  int(cfg.Commit.BatchBytes),
		},
		Stream: baton.Stream{
			RingEvents:   cfg.Stream.RingEvents,
			RingBytes:    int(cfg.Stream.RingBytes),
			Rings:        int(cfg.Stream.Rings),
			Pace:         cfg.Stream.Pace,
			PaceAbove:    cfg.Stream.PaceAbove,
			Ping:         cfg.Stream.Ping,
			WriteTimeout: cfg.Stream.WriteTimeout,
			SendBuffer:   int(cfg.Stream.SendBuffer),
		},
	}
}
