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
	cfg.Timeouts.Grace = min(cfg.Timeouts.Grace, time.Second) // what does not stop ends with the process
	return start(ctx, cfg, log, list)
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

		CORSCredentials: cfg.Credentials,
		TrustedProxies:  proxies,

		Log:     log,
		Version: buildVersion(),
		Attachments: baton.Attachments{
			Directory: cfg.Attachments.Directory,
			BaseURL:   cfg.Attachments.BaseURL,
			Size:      int64(cfg.Attachments.Size),
			Types:     cfg.Attachments.Types,
			Files:     cfg.Attachments.Files,
			Uploads:   unlimited(cfg.Attachments.Uploads),
			Bytes:     int64(cfg.Attachments.Bytes),
			Expires:   cfg.Attachments.Expires,
		},
		Limits: baton.Limits{
			Runs:           cfg.Limits.Runs,
			RunsPerAgent:   cfg.Limits.RunsPerAgent,
			RunsPerProject: cfg.Limits.RunsPerProject,
			RunsPerUser:    cfg.Limits.RunsPerUser,
			RunsBytes:      int64(cfg.Limits.RunsBytes),
			RunsMessages:   int64(cfg.Limits.RunsMessages),
			Queue:          cfg.Limits.Queue,
			Body:           int(cfg.Limits.Body),
			Input:          int(cfg.Limits.Input),
			Messages:       int(cfg.Limits.Messages),
			Append:         int(cfg.Limits.Append),
			Event:          int(cfg.Limits.Event),
			State:          int(cfg.Limits.State),

			RequestsPerUser:    unlimited(cfg.Limits.RequestsPerUser),
			BurstPerUser:       cfg.Limits.BurstPerUser,
			RequestsPerProject: unlimited(cfg.Limits.RequestsPerProject),
			BurstPerProject:    cfg.Limits.BurstPerProject,
			StreamsPerUser:     unlimited(cfg.Limits.StreamsPerUser),
			StreamsPerProject:  unlimited(cfg.Limits.StreamsPerProject),
			QueuePerUser:       unlimited(cfg.Limits.QueuePerUser),
			QueuePerProject:    unlimited(cfg.Limits.QueuePerProject),

			TokensPerDay:       int64(cfg.Limits.TokensPerDay),
			RunEvents:          unlimited(cfg.Limits.RunEvents),
			RunMessages:        int64(cfg.Limits.RunMessages),
			InFlight:           int(cfg.Limits.InFlight),
			InFlightPerUser:    int(cfg.Limits.InFlightPerUser),
			InFlightPerProject: int(cfg.Limits.InFlightPerProject),
			Connections:        cfg.Limits.Connections,
			ConnectionsPerPeer: cfg.Limits.ConnectionsPerPeer,
			GuessesPerPeer:     unlimited(cfg.Limits.GuessesPerPeer),
			LeastRate:          int(cfg.Limits.LeastRate),
		},
		Retention: retentionOf(cfg.Retention),
		Timeouts:  baton.Timeouts(cfg.Timeouts),
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

// unlimited is a limit as baton.Limits has it: what is 0 in the settings is none.
func unlimited(limit int) int {
	if limit == 0 {
		return -1
	}
	return limit
}
