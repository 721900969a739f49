package cmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared/makers"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/bus/natsbus"
	"github.com/batonrun/baton/storage/blob/cloud"
)

// Server is the server that Start returns.
type Server = baton.Server

// Start starts a server with these settings. The caller shuts it down.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger, list ...plugins.Plugin) (*Server, error) {
	set, err := opened(ctx, cfg, log, list)
	if err != nil {
		return nil, err
	}
	return start(ctx, set)
}

func start(ctx context.Context, set baton.Config) (*Server, error) {
	s, err := baton.New(set)
	if err != nil {
		return nil, err
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// opened returns the configuration for settings, with the authenticator and the bucket that they name.
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
	if cfg.NATS != "" {
		servers, err := natsbus.Parse(cfg.NATS)
		if err != nil {
			return set, fmt.Errorf("nats: %w", err)
		}
		set.Bus = func(database string) bus.Bus { return servers.Bus(database, log) }
	}
	return set, nil
}

// startEngine starts a server that only this process can reach. It has exclusive use of the database until it is closed.
func startEngine(ctx context.Context, cfg config.Config, log *slog.Logger, o offers) (*baton.Server, error) {
	cfg.Listen, cfg.AdminListen = "", ""
	set, err := o.opened(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	set.Timeouts.Grace = time.Second // workers that do not stop end with the process
	return start(ctx, set)
}

// settings converts settings to the configuration of package baton.
func settings(cfg config.Config, log *slog.Logger, list []plugins.Plugin) baton.Config {
	proxies, _ := cfg.TrustedProxies() // Validate has checked them
	return baton.Config{Plugins: list, Database: cfg.Database, Listen: cfg.Listen, Hosts: cfg.Hosts, Log: log, Tuning: baton.Tuning{
		Name:        cmp.Or(cfg.Name, pod()),
		Role:        roleOf(cfg.Role),
		Labels:      cfg.Labels,
		Servers:     makers.Share,
		KeepEdits:   cfg.KeepEdits,
		NoPrompts:   !cfg.Prompts,
		Console:     cfg.Console,
		AdminListen: cfg.AdminListen,
		Insecure:    cfg.Insecure,
		TLS:         baton.TLS(cfg.TLS),
		Origins:     cfg.Origins,

		TrustedProxies: proxies,

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
		},
		Retention: retentionOf(cfg.Retention),
		Timeouts: baton.Timeouts{
			Step:              cfg.Timeouts.Step,
			Run:               cfg.Timeouts.Run,
			Tool:              cfg.Timeouts.Tool,
			Approval:          cfg.Timeouts.Approval,
			Drain:             cfg.Timeouts.Drain,
			OnDisconnectGrace: cfg.Timeouts.OnDisconnectGrace,
			AgentGone:         cfg.Timeouts.AgentGone,
			Lease:             cfg.Timeouts.Lease,
			Ping:              cfg.Timeouts.Ping,
		},
	}}
}

// pod returns the name of the Kubernetes pod that this process runs in, which it has again when its container is restarted; "" elsewhere.
func pod() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return ""
	}
	return os.Getenv("HOSTNAME")
}

// roleOf converts a role for baton.Config.
func roleOf(role string) string {
	if role == config.RoleAll {
		return ""
	}
	return role
}

// unlimited converts a limit for baton.Limits, where a negative number means no limit.
func unlimited(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}
