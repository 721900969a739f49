package cmd

import (
	"log/slog"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/mcp"
	"github.com/batonrun/baton/transports/monitor"
	"github.com/batonrun/baton/transports/openapi"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/ws"
)

// newWeb mounts the transports on a server.
func newWeb(cfg config.Config, rt *runtime.Runtime, log *slog.Logger) (*transports.Server, error) {
	streams := transports.NewStreams(transports.StreamConfig{
		Runtime: rt, Log: log,

		Pace:         cfg.Stream.Pace,
		PaceAbove:    cfg.Stream.PaceAbove,
		Ping:         cfg.Stream.Ping,
		WriteTimeout: cfg.Stream.WriteTimeout,
		SendBuffer:   int(cfg.Stream.SendBuffer),
		Grace:        cfg.Timeouts.OnDisconnectGrace,
	})
	return transports.New(
		transports.Config{
			Runtime: rt, Streams: streams, Log: log,

			Listen:   cfg.Listen,
			Insecure: cfg.Insecure,
			Hosts:    cfg.Hosts,
			Origins:  cfg.Origins,
			Body:     int(cfg.Limits.Body),
			Input:    int(cfg.Limits.Input),
		},
		rest.Transport{Runtime: rt, Streams: streams},
		sse.Transport{Runtime: rt, Streams: streams},
		ws.Transport{Runtime: rt, Streams: streams, Log: log, Input: int64(cfg.Limits.Input), Body: int64(cfg.Limits.Body)},
		agui.Transport{Runtime: rt, Streams: streams},
		mcp.Transport{Runtime: rt, Streams: streams, Log: log, Version: buildVersion()},
		monitor.Transport{Runtime: rt, Streams: streams},
		openapi.New(buildVersion()),
	)
}
