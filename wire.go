package baton

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/attach"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/blob"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/attachments"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/console"
	"github.com/batonrun/baton/transports/mcp"
	"github.com/batonrun/baton/transports/monitor"
	"github.com/batonrun/baton/transports/openapi"
	"github.com/batonrun/baton/transports/rates"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/telemetry/metrics"
	"github.com/batonrun/baton/transports/ticket"
	"github.com/batonrun/baton/transports/ws"
)

// newRegistry checks the plugins that the server offers.
func newRegistry(list []plugins.Plugin) (*host.Registry, error) {
	reg := new(host.Registry)
	if err := reg.Add(list...); err != nil {
		return nil, err
	}
	return reg, reg.Validate()
}

// openDatabase opens the database for a server, and migrates it to this version's schema.
func openDatabase(ctx context.Context, cfg *Config) (*storage.DB, error) {
	return storage.Open(ctx, storage.Config{
		URL: cfg.Database, Serve: true, Migrate: true, Name: cfg.Name, Lease: cfg.Timeouts.Lease, Log: cfg.Log,
	})
}

// hasAccounts reports whether requests are authenticated.
func (c *Config) hasAccounts() bool { return c.Accounts != nil || c.APIKeys }

// newFiles returns the attachments, and the closer of their storage.
func newFiles(cfg *Config, db *storage.DB) (*attach.Files, io.Closer) {
	a := cfg.Attachments
	switch {
	case a.Blobs != nil:
	case a.Directory != "":
		a.Blobs = blob.NewDirectory(a.Directory)
	default:
		a.Blobs = db.Blobs()
	}
	closer, ok := a.Blobs.(io.Closer)
	if !ok {
		closer = io.NopCloser(nil)
	}
	files := attach.Config{
		Records: db.Attachments, Blobs: a.Blobs, Log: cfg.Log, Size: a.Size, Types: a.Types, Bytes: a.Bytes,
	}
	if cfg.hasAccounts() {
		files.Uploads = 8
	}
	cfg.adjust(&files)
	return attach.New(files), closer
}

// calmFor is runtime.Limits.Calm. Tests change it with the linker, as tidyEvery.
var calmFor = "30s"

// newRuntime returns the engine on db. Its clients reach it at addr, which may be empty.
func newRuntime(ctx context.Context, cfg *Config, reg *host.Registry, db *storage.DB, files *attach.Files, addr string, watch *metrics.Metrics, revoked func(context.Context, func(string) bool)) (*runtime.Runtime, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	calm, err := time.ParseDuration(calmFor)
	if err != nil {
		return nil, err
	}
	hints, err := newBus(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	engine := runtime.Config{
		Identity:    runtime.Identity{Name: cmp.Or(cfg.Name, host), Version: cfg.Version, Schema: db.Schema(), Role: cfg.Role, Labels: cfg.Labels, Settings: cfg.common()},
		Attachments: files,
		Store:       db, Bus: hints, Revoked: revoked, Registry: reg, Log: cfg.Log, Addr: addr,
		Heartbeat: min(time.Second, cfg.Timeouts.Lease/5),

		Limits: runtime.Limits{
			Runs:            cfg.Limits.Runs,
			RunsPerProject:  cfg.Limits.RunsPerProject,
			RunsPerUser:     cfg.Limits.RunsPerUser,
			RunEvents:       10_000_000,
			Budgets:         cfg.Budgets,
			Prices:          cfg.Prices,
			StepTimeout:     cfg.Timeouts.Step,
			RunTimeout:      cfg.Timeouts.Run,
			ToolTimeout:     cfg.Timeouts.Tool,
			ApprovalTimeout: cfg.Timeouts.Approval,
			Grace:           cfg.Timeouts.Grace,
			Drain:           cfg.Timeouts.Drain,
			AgentGone:       cfg.Timeouts.AgentGone,
			Calm:            calm,
			RunsBytes:       cfg.Limits.RunsBytes,
			RunsMessages:    cfg.Limits.RunsMessages,
		},
		QueueDepth: cfg.Limits.Queue,

		Counter:   db.Counter,
		Ledger:    db.Counter,
		NoPrompts: cfg.NoPrompts,
		Measures:  watch.Measures(),
		Tracer:    cfg.Tracer,
	}
	if cfg.hasAccounts() {
		engine.Accounts, engine.Audit = true, true
		engine.QueuePerUser, engine.QueuePerProject = max(1, cfg.Limits.Queue/10), max(1, cfg.Limits.Queue/2)
	}
	cfg.adjust(&engine)
	return runtime.New(engine)
}

// newBus returns the bus to the other servers of the database, or nil if there are none.
func newBus(ctx context.Context, cfg *Config, db *storage.DB) (bus.Bus, error) {
	if cfg.Bus == nil || !db.Shared() {
		return db.Registry.Bus(), nil
	}
	database, err := db.Registry.Identity(ctx)
	if err != nil {
		return nil, fmt.Errorf("identify the database: %w", err)
	}
	return cfg.Bus(database), nil
}

// common returns hashes of the settings that the servers of a cluster should have in common.
func (c *Config) common() map[string]string {
	accounts := "none"
	switch {
	case c.APIKeys:
		accounts = "api keys"
	case c.Accounts != nil:
		accounts = "others"
	}
	files := c.Attachments
	if files.Blobs != nil {
		files.Directory, files.Blobs = "", nil
	}
	settings := map[string]any{
		"auth.mode": accounts, "attachments": files, "retention": c.Retention, "prices": c.Prices, "budgets": c.Budgets, "timeouts": c.Timeouts,
		"limits.input": c.Limits.Input, "limits.queue": c.Limits.Queue,
		"limits.runs_per_project": c.Limits.RunsPerProject, "limits.runs_per_user": c.Limits.RunsPerUser,
		"prompts": c.NoPrompts, "nats": c.Bus != nil, "keep_edits": c.KeepEdits,
	}
	hashes := make(map[string]string, len(settings))
	for name, v := range settings {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // they are numbers and strings
		}
		sum := sha256.Sum256(text)
		hashes[name] = hex.EncodeToString(sum[:8])
	}
	return hashes
}

// newWeb mounts the transports on a server.
func newWeb(cfg *Config, secure *tls.Config, rt *runtime.Runtime, db *storage.DB, files *attach.Files, accounts auth.Authenticator, watch *metrics.Metrics, more ...transports.Mounter) (*transports.Server, error) {
	meter := (*rates.Meter)(nil)
	if accounts != nil {
		limits := cfg.Limits.rates()
		limits.Servers = func() int { return rt.Fleet().Count().Clients }
		cfg.adjust(&limits)
		meter = rates.New(limits)
	}
	reading := transports.StreamConfig{
		Runtime: rt, Log: cfg.Log, Rates: meter,
		Ping: cfg.Timeouts.Ping, WriteTimeout: 2 * cfg.Timeouts.Ping, Grace: cfg.Timeouts.OnDisconnectGrace,
	}
	if db.Shared() {
		reading.Ties = db.Ties()
	}
	cfg.adjust(&reading)
	streams := transports.NewStreams(reading)
	watch.Watch(rt.Stats, streams.Stats, streams.Budget.Used, func() map[string]string { return rt.Plugins().Unwell() })
	shown := http.Handler(nil)
	if accounts == nil && cfg.AdminListen == "" {
		shown = watch.Handler()
	}
	traced := (func(context.Context, string) context.Context)(nil)
	if cfg.Tracer != nil {
		traced = cfg.Tracer.Within
	}
	serving := transports.Config{
		Runtime: rt, Streams: streams, Log: cfg.Log,

		Listen:   cfg.Listen,
		Insecure: cfg.Insecure,
		TLS:      secure,
		Hosts:    cfg.Hosts,
		Origins:  cfg.Origins,
		Cookies:  cfg.CORSCredentials,
		Proxies:  cfg.TrustedProxies,
		Input:    cfg.Limits.Input,
		Guesses:  60,

		Metrics:  shown,
		Answered: watch.Request,
		Traced:   traced,
	}
	cfg.adjust(&serving)
	if cfg.Role == RoleWorker {
		serving.Bare = true
		return transports.New(serving)
	}
	mounts := []transports.Mounter{
		rest.Transport{Runtime: rt, Streams: streams, Version: cfg.Version, Retention: cfg.Retention, Retainer: db.Retention},
		attachments.Transport{Uploads: rt.Uploads, Size: files.Size(), BaseURL: cfg.Attachments.BaseURL, PerUser: files.Uploads()},
		sse.Transport{Streams: streams},
		ws.Transport{
			Runtime: rt, Streams: streams, Log: cfg.Log, KeepEdits: cfg.KeepEdits,
			Input: int64(serving.Input), Body: int64(serving.Body),
		},
		monitor.Transport{Runtime: rt, Streams: streams}, // before agui, whose routes overlap with /api/v1/agui/events
		agui.Transport{Runtime: rt, Streams: streams, KeepEdits: cfg.KeepEdits},
		mcp.Transport{Runtime: rt, Streams: streams, Log: cfg.Log, Version: cfg.Version},
		openapi.New(cfg.Version, shown != nil),
	}
	mounts = append(mounts, more...)
	if cfg.Console {
		shown, err := console.New()
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, shown)
	}
	tickets := ticket.New(rt.Secrets, accounts, mounts...)
	if accounts != nil {
		accounts = tickets
	}
	serving.Accounts = accounts
	return transports.New(serving, append(mounts, tickets)...)
}
