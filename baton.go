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
	Commit      Commit
	Stream      Stream
}

// TLS names the files that Listen's certificate and its key are read from, both in PEM. When they change, what is in them then is
// used for the connections that come; while they do not belong together, or are not there, what was in them before.
type TLS struct {
	CertFile string // the certificate, and behind it those between it and its root
	KeyFile  string
}

// Attachments says where the files lie that users attach to messages, and what is taken.
type Attachments struct {
	Directory string        // where their bytes lie, default baton-attachments, beside a SQLite Database
	Blobs     runtime.Blobs // keeps the bytes elsewhere, in the place of Directory, and is closed if it can be; see storage/blob/cloud for S3
	BaseURL   string        // where browsers reach this server, for the URLs that it signs, default where a request went
	Size      int64         // a file, default 20 MiB
	Types     []string      // media types that are taken, as in image/*; default attach.DefaultTypes
	Files     int           // of a user, default 1 000
	Bytes     int64         // of all of a user's files, default 1 GiB
	Uploads   int           // of a user at a time, with accounts, default 8, below 0 for no limit
	Expires   time.Duration // a signed URL, default 15 min
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

// Limits bounds what a server takes on. Runs over a limit wait in the queue; what is over the others is refused.
type Limits struct {
	Runs           int   // runs executed at once, default 1 000 per core, at most one per MiB of memory
	RunsPerAgent   int   // of one agent, default no limit of its own
	RunsPerProject int   // of one project, default three quarters with accounts, and else no limit of its own
	RunsPerUser    int   // of one user, default a half with accounts, and else no limit of its own
	RunsBytes      int64 // that those runs are asked together, those of up to 64 KiB apart, default a 16th of the memory, at most 48 MiB
	RunsMessages   int64 // bytes that the messages of those runs have in memory together, those of up to 64 KiB apart, default an 8th of the memory
	Queue          int   // runs waiting for their turn, default 10 000
	Body           int   // a request's body, default 2 MiB
	Input          int   // a request's body that starts a run, default 32 MiB
	Messages       int   // the new messages of one run, default 8 MB
	Append         int   // the text of a message that is appended to a run, default 1 MiB
	Event          int   // an event that an agent emits, default and at most 8 MB, at least 64 KiB
	State          int   // a thread's state, default and at most 4 MiB

	TokensPerDay       int64 // that calls of models take for a project in 24 hours, default no limit
	RunEvents          int   // of one run between two answers of its client, default 10 000 000, below 0 no limit
	RunMessages        int64 // bytes that the messages of one run have in memory, results of tools and outputs twice, default 64 MiB
	InFlight           int   // bytes of requests, messages and answers that are held for clients at a time, default 96 MiB
	Connections        int   // open at a time on Listen, default as many as the process may have files open, less some
	ConnectionsPerPeer int   // of them from one address that is none of TrustedProxies, default half
	LeastRate          int   // bytes that clients send and take a second, on the average, default 4 KiB

	// These hold where there are accounts. Below 0 is no limit.

	RequestsPerUser    int // a second, default 50
	BurstPerUser       int // requests that may come at once, default 4 seconds' worth
	RequestsPerProject int // a second, of all users of a project, default 500
	BurstPerProject    int // requests that may come at once, default 4 seconds' worth
	StreamsPerUser     int // streams and sockets open at a time, default 200
	StreamsPerProject  int // of all users of a project, default 2 000
	QueuePerUser       int // runs waiting for their turn, default 1 000
	QueuePerProject    int // of all users of a project, default 5 000
	InFlightPerUser    int // bytes of InFlight for one user, who may have one request that is larger, default a half
	InFlightPerProject int // for all users of a project, default three quarters
	GuessesPerPeer     int // credentials of one address that are wrong in a minute, default 60
}

// queue is how many runs of a user and of a project may wait where there are accounts.
func (l *Limits) queue() (user, project int) {
	return cmp.Or(l.QueuePerUser, 1000), cmp.Or(l.QueuePerProject, 5000)
}

// rates are the limits on what comes from users and projects.
func (l *Limits) rates() rates.Config {
	of := func(requests, burst, streams, bytes, usual, most, share int) rates.Limits {
		requests = cmp.Or(requests, usual)
		return rates.Limits{Requests: requests, Burst: cmp.Or(burst, 4*requests), Streams: cmp.Or(streams, most), Bytes: int64(cmp.Or(bytes, share))}
	}
	all := cmp.Or(l.InFlight, transports.InFlight)
	return rates.Config{
		User:    of(l.RequestsPerUser, l.BurstPerUser, l.StreamsPerUser, l.InFlightPerUser, 50, 200, all/2),
		Project: of(l.RequestsPerProject, l.BurstPerProject, l.StreamsPerProject, l.InFlightPerProject, 500, 2000, all/4*3),
	}
}

// Timeouts bounds how long things take.
type Timeouts struct {
	Step              time.Duration // one execution of an agent, default 10 min
	Run               time.Duration // a run from its start to its end, default 1 h
	Tool              time.Duration // a tool call, default 2 min
	Approval          time.Duration // a tool or a node that waits for a person, until it is refused, default 30 days
	Grace             time.Duration // a cancelled worker, until it is abandoned, default 5 s
	Drain             time.Duration // runs at work when the server is told to stop, default 30 s
	OnDisconnectGrace time.Duration // a dropped client, until its run is cancelled, default 3 s
	Lease             time.Duration // a server that is silent, until one that stands by takes its place, default 15 s
	Commit            time.Duration // a write that the database does not answer, until who waits for it is told that its outcome is unknown, default 10 s

	RequestHead time.Duration // a request's line and headers, and the handshake of TLS, default 10 s
	RequestBody time.Duration // the whole of a request's body, default 1 min
	Answer      time.Duration // the whole of an answer that is no stream, until it is taken, default 5 min
	Stall       time.Duration // a body that does not get on, or an answer that is not taken, default 10 s
	Idle        time.Duration // a connection between two requests, default 2 min
}

// Commit tunes how events are gathered into transactions.
type Commit struct {
	Interval    time.Duration // between two commits' starts, under load, default 2 ms
	QueueRun    int           // events of one run waiting for a commit, default 256 KiB
	Queue       int           // events of all runs waiting for a commit, default 8 MiB
	BatchEvents int           // events in one transaction, default 1 000
	BatchBytes  int           // their size, default 1 MiB
}

// Stream tunes the delivery of events to readers.
type Stream struct {
	RingEvents   int           // latest events of a thread kept in memory, default 1 024
	RingBytes    int           // their size, default 256 KiB
	Rings        int           // the size of all threads', default 64 MiB
	Pace         time.Duration // between two writes to a reader, under load, default 10 ms
	PaceAbove    int           // live streams above which that holds, default 64
	Ping         time.Duration // silence after which a stream is pinged, default 15 s
	WriteTimeout time.Duration // one write to a reader, default 30 s
	SendBuffer   int           // the kernel's buffer for a reader, default 64 KiB
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
	c.Attachments.Uploads = cmp.Or(c.Attachments.Uploads, 8)
	c.Timeouts.Lease = cmp.Or(c.Timeouts.Lease, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}
