// Package baton embeds Baton in a program: a durable runtime for AI agents and workflows that stores every event, streams it
// and resumes after a crash. One Config sets up all its parts: database, engine, routes, and the janitor that removes old data.
//
//	srv, err := baton.New(baton.Config{Listen: "127.0.0.1:8080", Plugins: []plugins.Plugin{agent}})
//	if err != nil {
//		return err
//	}
//	return srv.Run(ctx) // until ctx ends
//
// A program with its own HTTP server leaves Listen empty, calls [Server.Start] and mounts Baton's routes: see [Server.Handler]
// for net/http and [Server.Fiber] for fiber. Agents and tools use package plugins, which has almost no dependencies. Package cmd
// is the command line.
package baton

import (
	"cmp"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/rates"
)

// Config configures a Server. A zero field means its default, so a Config with only Plugins works. Sizes are in bytes.
type Config struct {
	// Plugins are the agents, tools and workflows that the server offers. Package plugins/builtin has some to begin with.
	Plugins []plugins.Plugin

	// Database is sqlite:<file>, which one server may use at a time, or a postgres:// URL. Start creates it, or migrates it
	// to this version's schema. Default sqlite:baton.db.
	Database string

	// Listen is the host:port to serve on; port 0 takes any free port. If it is empty, the program serves Handler or Fiber
	// itself.
	Listen string

	// Accounts authenticates requests with the program's own accounts. A request gets 401 if it returns an error, or an
	// Identity without a project, a user or a role. Several goroutines call it, once for every request except those for
	// /healthz, /readyz and the documentation, before the request's body is read. It must neither store the request nor read
	// its body. The request's context has the values that middleware in front of Handler has set, or handlers in front of
	// Fiber with Locals.
	//
	// Streams that a credential has opened end at Identity.Expires. An Authenticator that is also a Watcher can revoke
	// credentials earlier. Accounts is not called for streams that are opened with a ticket (POST /api/v1/stream-tickets):
	// these belong to the Identity that requested the ticket.
	//
	// Nil turns authentication off: every request comes from the user "local" of the project "default", and the server
	// accepts requests only on loopback addresses, unless Insecure is set.
	Accounts Authenticator

	// Hosts are the Host names that requests may use, besides that of Listen, localhost and IP addresses. A program behind
	// the name app.example.com adds it here. Requests with another Host get 421.
	Hosts []string

	// Log receives the server's log. Default slog.Default.
	Log *slog.Logger

	Tuning
}

// Tuning holds the settings that most programs leave as they are.
type Tuning struct {
	// APIKeys authenticates requests with the API keys in the database, instead of Accounts. Server.CreateAPIKey and the
	// command baton keys create keys.
	APIKeys bool

	// TLS serves HTTPS on Listen. With TLS and accounts, Listen may be an address that other machines can reach.
	TLS TLS

	// Insecure allows other machines to connect without authentication, or over plain HTTP, as behind a proxy that ends TLS.
	Insecure bool

	// Origins are the origins of web pages that may call the server, such as https://app.example.com, besides the server's
	// own. Requests of other pages get 403.
	Origins []string

	// CORSCredentials lets browsers send cookies with requests of pages from Origins, for Accounts that use cookies.
	CORSCredentials bool

	// TrustedProxies are the addresses of proxies in front of the server. X-Forwarded-For, X-Forwarded-Proto,
	// X-Forwarded-Host and X-Request-Id count only in requests from them. Hosts must contain the names that clients use.
	TrustedProxies []netip.Prefix

	// AdminListen is the host:port of a separate listener for operators, without authentication: GET /metrics for
	// Prometheus, and Go's profiles at /debug/pprof/. Without a host it is a loopback address. If it is empty, Listen serves
	// GET /metrics, unless there are accounts. See also [Server.Metrics].
	AdminListen string

	// Name is a name that this server has again after a restart, such as that of a pod. On PostgreSQL a server that was killed loses its
	// runs sooner once another one of its name has started. Two servers must not have the same name at the same time. It may be empty.
	Name string

	// Role limits what this server of a PostgreSQL database does: "" for everything, RoleGateway or RoleWorker. See docs/cluster.md.
	Role string

	// Labels are the labels of this server: it executes the runs of agents with one of them as plugins.Info.RunOn.
	Labels []string

	// Servers is called with how many servers of the database execute runs, when that has changed. It is for limits of which
	// each server applies an equal part. Nil ignores it.
	Servers func(n int)

	// Bus returns the bus that carries hints between the servers of the cluster, instead of PostgreSQL, by a name that no other database
	// has. Package runtime/bus/natsbus has one for NATS. Nil uses PostgreSQL.
	Bus func(database string) bus.Bus

	// KeepEdits keeps a thread as it is when an AG-UI or CopilotKit client edits an earlier message or asks for another
	// answer, instead of rewinding the thread. Such clients send a list of messages that differs from the thread.
	KeepEdits bool

	// NoPrompts stores no prompts and answers of model calls, which people can read with the run. The calls are listed anyway.
	NoPrompts bool

	// Console serves the console, a web page that shows and controls runs, at / and the paths below it. It uses the API like
	// any client.
	Console bool

	// Tracer traces requests and runs. Package transports/telemetry/traces has one for OpenTelemetry. Nil traces nothing.
	Tracer runtime.Tracer

	// Version is the version of this server in OpenAPI and MCP. Default Baton's own.
	Version string

	// Retention sets how long data is kept, for all projects and for single ones. Nil keeps everything forever, except 90
	// days of the audit log. In a policy, a zero field means forever.
	Retention *RetentionPolicy

	// Prices are the prices of models, by which the costs of model calls are computed when they are made.
	Prices Prices

	// Budgets limit the use of model calls by projects, users, agents and runs, in tokens or in the currency of Prices.
	Budgets []Budget

	Attachments Attachments
	Limits      Limits
	Timeouts    Timeouts

	adjust func(component any) // changes the configuration of a component before it is used; for tests
}

// Roles of servers of a PostgreSQL database. A gateway executes no runs: it has the same plugins as the others, and starts none of them. A
// worker serves only GET /healthz, /readyz and /metrics.
const (
	RoleGateway = runtime.Gateway
	RoleWorker  = runtime.Worker
)

// TLS names the PEM files with the certificate and its key. The server reloads them when they change, and uses the previous pair
// while the files are missing or do not match.
type TLS struct {
	CertFile string // the certificate, followed by its intermediates
	KeyFile  string
}

// Attachments sets where the files that users attach to messages are stored, and limits them.
type Attachments struct {
	Directory string        // default baton-attachments beside a SQLite Database, and no directory but the database itself for PostgreSQL
	Blobs     runtime.Blobs // stores the files instead of Directory, and is closed with the server if it is an io.Closer; see storage/blob/cloud for S3
	BaseURL   string        // URL under which browsers reach this server, for signed links; default the address of the request
	Size      int64         // largest file, default 20 MiB
	Types     []string      // accepted media types, where image/* accepts all images; default attach.DefaultTypes
	Bytes     int64         // total size of one user's files, default 1 GiB
}

// Authentication: see package auth.
//
//nolint:revive // each is documented there
type (
	Authenticator     = auth.Authenticator
	AuthenticatorFunc = auth.AuthenticatorFunc // a function as an Authenticator
	Identity          = auth.Identity
	Watcher           = auth.Watcher // an Authenticator that can revoke credentials
)

// Roles of an Identity in its projects. A RoleUser sees and controls its own runs, a RoleViewer sees all runs of the project,
// a RoleOperator also controls them, and a RoleAdmin may do everything.
const (
	RoleUser     = runtime.RoleUser
	RoleViewer   = runtime.RoleViewer
	RoleOperator = runtime.RoleOperator
	RoleAdmin    = runtime.RoleAdmin
)

// Prices and budgets of model calls.
//
//nolint:revive // each is documented there
type (
	Prices = runtime.Prices
	Price  = runtime.Price
	Budget = runtime.Budget
)

// How long data is kept.
//
//nolint:revive // each is documented there
type (
	RetentionPolicy = retention.Policy
	Retention       = retention.Retention
)

// Limits protects a server and divides it among users. Runs over a limit wait in the queue; other requests over a limit are
// refused. Limits per user and per project need accounts.
type Limits struct {
	Runs           int   // runs executing at once, default one per MiB of memory, at most 10 000
	RunsPerProject int   // runs of one project executing at once, default three quarters of Runs
	RunsPerUser    int   // runs of one user executing at once, default half of Runs
	RunsBytes      int64 // total input of executing runs, where inputs up to 64 KiB do not count; default a 16th of memory, at most 48 MiB
	RunsMessages   int64 // memory for the messages of executing runs, where up to 64 KiB of a run do not count; default an 8th of memory
	Queue          int   // runs waiting in the queue, default 10 000; with accounts a project may use half of it, a user a tenth
	Input          int   // bytes of a request that starts a run, default 32 MiB, at most 96 MiB

	RequestsPerUser    int // requests per second, in bursts of up to four seconds; default 50, below 0 no limit
	RequestsPerProject int // likewise for all users of a project, default 500
	StreamsPerUser     int // open streams and WebSockets, default 200, below 0 no limit
	StreamsPerProject  int // likewise for all users of a project, default 2 000
}

// rates returns the limits on requests and streams of users and projects.
func (l *Limits) rates() rates.Config {
	of := func(requests, streams, bytes int) rates.Limits {
		return rates.Limits{Requests: requests, Burst: 4 * requests, Streams: streams, Bytes: int64(bytes)}
	}
	return rates.Config{
		User:    of(cmp.Or(l.RequestsPerUser, 50), cmp.Or(l.StreamsPerUser, 200), transports.InFlight/2),
		Project: of(cmp.Or(l.RequestsPerProject, 500), cmp.Or(l.StreamsPerProject, 2000), transports.InFlight/4*3),
	}
}

// Timeouts limits how long things may take.
type Timeouts struct {
	Step              time.Duration // longest execution of one agent, default 10 min
	Run               time.Duration // longest run, without the time in which it waits for answers, default 1 h
	Tool              time.Duration // longest tool call, default 2 min
	Approval          time.Duration // how long an approval may stay open before it counts as refused, default 30 days
	Grace             time.Duration // how long a cancelled worker may take to return before it is abandoned, default 5 s
	Drain             time.Duration // how long runs may take to finish when the server stops, default 30 s
	OnDisconnectGrace time.Duration // how long a client may be disconnected before its run is cancelled, default 10 s
	AgentGone         time.Duration // how long a run waits on PostgreSQL for a server that offers its agent, before it fails, default 15 min
	Lease             time.Duration // how long a server of a PostgreSQL database must be silent before the others take its runs over, default 6 s
	Ping              time.Duration // how often an idle stream is pinged, default 15 s; a client that reads nothing for twice as long is disconnected
}

// withDefaults sets the defaults that this package needs. The components set their own.
func (c Config) withDefaults() Config {
	c.Database = cmp.Or(c.Database, "sqlite:baton.db")
	c.Version = cmp.Or(c.Version, Version())
	if file, ok := strings.CutPrefix(c.Database, "sqlite:"); ok && c.Attachments.Directory == "" {
		c.Attachments.Directory = filepath.Join(filepath.Dir(file), "baton-attachments")
	}
	if c.Retention == nil {
		c.Retention = &RetentionPolicy{Retention: Retention{Audit: 90 * 24 * time.Hour}}
	}
	c.Limits.Queue = cmp.Or(c.Limits.Queue, 10_000)
	c.Timeouts.Lease = cmp.Or(c.Timeouts.Lease, storage.DefaultLease)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.adjust == nil {
		c.adjust = func(any) {}
	}
	return c
}
