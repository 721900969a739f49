// Package baton is Baton for programs that embed it: a server of agents and workflows that keeps every event of
// them, with all its parts (database, engine, routes, and the janitor that keeps the database small) behind one
// Config.
//
//	srv, err := baton.New(ctx, baton.Config{Listen: "127.0.0.1:8080", Plugins: []plugins.Plugin{agent}})
//	if err != nil {
//		return err
//	}
//	return srv.Run(ctx) // until ctx ends
//
// A program that has an HTTP server of its own leaves Listen empty and gives Baton some of its paths: see
// [Server.Handler] for net/http and [Server.Fiber] for fiber. Agents and tools are written against package
// plugins, which imports next to nothing; package cmd is the command line around all of this.
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
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/rates"
)

// Config says what a Server serves and how. Its zero fields mean the defaults that they name, so that a Config
// of nothing but Plugins will do. Sizes are in bytes.
type Config struct {
	// Plugins are the agents, tools and workflows that are offered. Package plugins/builtin has some to begin with.
	Plugins []plugins.Plugin

	// Database is sqlite:<file>, which belongs to one server at a time, or a postgres:// URL. It is created,
	// and brought to this version's schema. Default sqlite:baton.db.
	Database string

	// Takeover replaces a server that has the PostgreSQL database at once, and ends it. Without it this one stands by:
	// until the other has stopped, has died or was silent for Timeouts.Lease, rows can be read, everything else is
	// refused, and GET /readyz says so.
	Takeover bool

	// Listen is the host:port to serve on; port 0 takes any free one. Empty means none: the program serves
	// Handler or Fiber itself.
	Listen string

	// AdminListen is the host:port of a listener of its own for whoever runs the server: GET /metrics for Prometheus, and
	// Go's profiles below /debug/pprof/. It asks for no account; without a host it is an address that no other machine
	// reaches. Empty means none: then GET /metrics is answered on Listen, unless Accounts is set. See also
	// [Server.Metrics].
	AdminListen string

	// Accounts says who sent a request, after the program's own idea of accounts. An error, and an Identity without a
	// project, a user or a role, are answered with 401. It is asked for every request but those for /healthz, /readyz and
	// the documentation, from several goroutines, before the request's body is read, and must neither keep the request nor
	// read its body. The request's context holds what middleware before Handler has put there, or what handlers
	// before Fiber have set with Locals.
	//
	// What a credential has opened ends when Identity.Expires has come; one that is also a Watcher can take credentials back
	// before. Streams are opened with tickets, too (POST /api/v1/stream-tickets), which it is not asked about: they are for the
	// Identity that asked for them.
	//
	// Nil means that there are no accounts: everybody is the user "local" of the project "default", and
	// requests are taken only on addresses that no other machine reaches, unless Insecure is set.
	Accounts Authenticator

	// APIKeys takes the API keys of the database, which Server.CreateAPIKey and the command baton keys make, for who sent a
	// request. Accounts must be nil then.
	APIKeys bool

	// TLS has Listen serve over HTTPS. With accounts, too, it may be an address that other machines reach.
	TLS TLS

	// Insecure serves other machines without accounts, or over plain HTTP on Listen, as behind a proxy that speaks TLS.
	Insecure bool

	// Hosts are the Host names that are answered beside that of Listen, localhost and addresses; a program
	// that is reached as app.example.com names it here. Any other is answered with 421.
	Hosts []string

	// Origins are the origins of web pages, such as https://app.example.com, that are admitted beside those
	// that come from the host they ask, over the scheme they ask with. Any other is answered with 403.
	Origins []string

	// CORSCredentials lets pages of Origins have their browsers send cookies and the like, for a program whose Accounts know them.
	CORSCredentials bool

	// TrustedProxies are the addresses of proxies that stand before the server. X-Forwarded-For, X-Forwarded-Proto,
	// X-Forwarded-Host and X-Request-Id count when they come from them, and from nobody else. Hosts must name what they are asked for.
	TrustedProxies []netip.Prefix

	// KeepEdits has what AG-UI's and CopilotKit's clients send rewind no thread: that a person has edited a message, or
	// wants another answer, is told by a list of messages that leaves the thread before its end.
	KeepEdits bool

	// Console serves the console, a page that shows and controls runs, to browsers at / and the paths below it that are its own. It
	// asks the API as any client does, and needs none of what a program answers itself.
	Console bool

	// Log is told what nobody can be answered. Default slog.Default.
	Log *slog.Logger

	// Tracer follows requests, runs and what is done in them; package transports/telemetry/traces has one for OpenTelemetry. Nil
	// traces nothing.
	Tracer runtime.Tracer

	// Version is what OpenAPI and MCP call this server's version. Default Baton's own.
	Version string

	// Retention says how long what is over is kept, for all projects and for some. Default for good, and the audit for 90 days;
	// a zero field of what is set here means for good.
	Retention *RetentionPolicy

	Attachments Attachments
	Limits      Limits
	Timeouts    Timeouts

	adjust func(component any) // changes the configuration of a component before it is used; for tests
}

// TLS names the files that Listen's certificate and its key are read from, both in PEM. When they change, what is in them then is
// used for the connections that come; while they do not belong together, or are not there, what was in them before.
type TLS struct {
	CertFile string // the certificate, and behind it those between it and its root
	KeyFile  string
}

// Attachments sets where the files that users attach to messages are stored, and limits them.
type Attachments struct {
	Directory string        // default baton-attachments, beside a SQLite Database
	Blobs     runtime.Blobs // stores the files instead of Directory, and is closed with the server if it is an io.Closer; see storage/blob/cloud for S3
	BaseURL   string        // URL under which browsers reach this server, for signed links; default the address of the request
	Size      int64         // largest file, default 20 MiB
	Types     []string      // accepted media types, where image/* accepts all images; default attach.DefaultTypes
	Bytes     int64         // total size of one user's files, default 1 GiB
}

// Who sent a request, and who says so: see package auth.
//
//nolint:revive // each is documented there
type (
	Authenticator     = auth.Authenticator
	AuthenticatorFunc = auth.AuthenticatorFunc // a function as an Authenticator
	Identity          = auth.Identity
	Watcher           = auth.Watcher // an Authenticator that can take credentials back
)

// What the user of an Identity may do in its projects: a RoleUser sees and controls own runs, a RoleViewer sees all of
// the project, a RoleOperator controls them too, and a RoleAdmin may do everything.
const (
	RoleUser     = runtime.RoleUser
	RoleViewer   = runtime.RoleViewer
	RoleOperator = runtime.RoleOperator
	RoleAdmin    = runtime.RoleAdmin
)

// How long what is over is kept.
//
//nolint:revive // each is documented there
type (
	RetentionPolicy = runtime.Policy
	Retention       = runtime.Retention
)

// Limits protects a server and divides it among users. Runs over a limit wait in the queue; other requests over a limit are
// refused. Limits per user and per project need accounts.
type Limits struct {
	Runs           int   // runs executing at once, default 1 000 per core, at most one per MiB of memory
	RunsPerProject int   // runs of one project executing at once, default three quarters of Runs
	RunsPerUser    int   // runs of one user executing at once, default half of Runs
	RunsBytes      int64 // total input of executing runs, where inputs up to 64 KiB do not count; default a 16th of memory, at most 48 MiB
	RunsMessages   int64 // memory for the messages of executing runs, where up to 64 KiB of a run do not count; default an 8th of memory
	Queue          int   // runs waiting in the queue, default 10 000; with accounts a project may use half of it, a user a tenth
	Input          int   // bytes of a request that starts a run, default 32 MiB, at most 96 MiB

	RequestsPerUser    int   // requests per second, in bursts of up to four seconds; default 50, below 0 no limit
	RequestsPerProject int   // likewise for all users of a project, default 500
	StreamsPerUser     int   // open streams and WebSockets, default 200, below 0 no limit
	StreamsPerProject  int   // likewise for all users of a project, default 2 000
	TokensPerDay       int64 // model tokens that one project may use in 24 hours, default no limit
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
	Run               time.Duration // longest run, from start to end, default 1 h
	Tool              time.Duration // longest tool call, default 2 min
	Approval          time.Duration // how long an approval may stay open before it counts as refused, default 30 days
	Grace             time.Duration // how long a cancelled worker may take to return before it is abandoned, default 5 s
	Drain             time.Duration // how long runs may take to finish when the server stops, default 30 s
	OnDisconnectGrace time.Duration // how long a client may be disconnected before its run is cancelled, default 3 s
	Lease             time.Duration // how long a server may be silent before a standby server takes over, default 15 s
	Ping              time.Duration // how often an idle stream is pinged, default 15 s; a client that reads nothing for twice as long is disconnected
}

// The defaults of what is not only passed on stand here, the others where they are used.
func (c Config) withDefaults() Config {
	c.Database = cmp.Or(c.Database, "sqlite:baton.db")
	c.Version = cmp.Or(c.Version, Version())
	if c.Attachments.Directory == "" {
		file, _ := strings.CutPrefix(c.Database, "sqlite:")
		if file == c.Database {
			file = ""
		}
		c.Attachments.Directory = filepath.Join(filepath.Dir(file), "baton-attachments")
	}
	if c.Retention == nil {
		c.Retention = &RetentionPolicy{Retention: Retention{Audit: 90 * 24 * time.Hour}}
	}
	c.Limits.Queue = cmp.Or(c.Limits.Queue, 10_000)
	c.Timeouts.Lease = cmp.Or(c.Timeouts.Lease, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.adjust == nil {
		c.adjust = func(any) {}
	}
	return c
}
