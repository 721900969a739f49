package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/storage/blob/cloud"
)

// Server is what Start has started.
type Server = baton.Server

// Start starts a server with the settings. The caller shuts it down.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger, list ...plugins.Plugin) (*Server, error) {
	return start(ctx, cfg, log, list)
}

// start opens what the settings name, and starts a server with it.
func start(ctx context.Context, cfg config.Config, log *slog.Logger, list []plugins.Plugin) (*Server, error) {
	set, err := opened(ctx, cfg, log, list)
	if err != nil {
		return nil, err
	}
	return baton.New(ctx, set)
}

// opened are the settings with what they name elsewhere: who says who asks, and the bucket of attachments.
func opened(ctx context.Context, cfg config.Config, log *slog.Logger, list []plugins.Plugin) (baton.Config, error) {
	set := settings(cfg, log, list)
	if err := addAccounts(&set, &cfg.Auth, log); err != nil {
		return set, err
	}
	if cfg.Attachments.URL != "" {
		bucket, err := cloud.Open(ctx, cfg.Attachments.URL)
		if err != nil {
			return set, fmt.Errorf("attachments.url: %w", err)
		}
		set.Attachments.Blobs = bucket
	}
	return set, nil
}

// startEngine starts a server that nobody can reach but this process, which has the database for itself until
// it is closed.
func startEngine(ctx context.Context, cfg config.Config, log *slog.Logger, list []plugins.Plugin) (*baton.Server, error) {
	cfg.Listen, cfg.AdminListen = "", ""
	set, err := opened(ctx, cfg, log, list)
	if err != nil {
		return nil, err
	}
	set.Timeouts.Grace = time.Second // workers that do not stop end with the process
	return baton.New(ctx, set)
}

// settings are the settings as package baton has them.
func settings(cfg config.Config, log *slog.Logger, list []plugins.Plugin) baton.Config {
	proxies, _ := cfg.TrustedProxies() // Validate has seen them
	return baton.Config{
		Plugins:     list,
		Database:    cfg.Database,
		Takeover:    cfg.Takeover,
		KeepEdits:   cfg.KeepEdits,
		Console:     cfg.Console,
		Listen:      cfg.Listen,
		AdminListen: cfg.AdminListen,
		Insecure:    cfg.Insecure,
		TLS:         baton.TLS(cfg.TLS),
		Hosts:       cfg.Hosts,
		Origins:     cfg.Origins,

		TrustedProxies: proxies,

		Log:     log,
		Version: buildVersion(),
		Attachments: baton.Attachments{
			Directory: cfg.Attachments.Directory,
			BaseURL:   cfg.Attachments.BaseURL,
			Size:      int64(cfg.Attachments.Size),
			Types:     cfg.Attachments.Types,
			Bytes:     int64(cfg.Attachments.Bytes),
		},
		Limits: baton.Limits{
			Runs:           cfg.Limits.Runs,
			RunsPerProject: cfg.Limits.RunsPerProject,
			RunsPerUser:    cfg.Limits.RunsPerUser,
			RunsBytes:      int64(cfg.Limits.RunsBytes),
			RunsMessages:   int64(cfg.Limits.RunsMessages),
			Queue:          cfg.Limits.Queue,
			Input:          int(cfg.Limits.Input),

			RequestsPerUser:    unlimited(cfg.Limits.RequestsPerUser),
			RequestsPerProject: unlimited(cfg.Limits.RequestsPerProject),
			StreamsPerUser:     unlimited(cfg.Limits.StreamsPerUser),
			StreamsPerProject:  unlimited(cfg.Limits.StreamsPerProject),
			TokensPerDay:       int64(cfg.Limits.TokensPerDay),
		},
		Retention: retentionOf(cfg.Retention),
		Timeouts: baton.Timeouts{
			Step:              cfg.Timeouts.Step,
			Run:               cfg.Timeouts.Run,
			Tool:              cfg.Timeouts.Tool,
			Approval:          cfg.Timeouts.Approval,
			Drain:             cfg.Timeouts.Drain,
			OnDisconnectGrace: cfg.Timeouts.OnDisconnectGrace,
			Lease:             cfg.Timeouts.Lease,
			Ping:              cfg.Timeouts.Ping,
		},
	}
}

// unlimited converts a limit for baton.Limits, where a negative number means no limit.
func unlimited(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}
