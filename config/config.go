// Package config holds the settings of a Baton server and reads them: defaults, then a YAML file, then
// environment variables, then flags, each over the one before. A setting is named alike in all of them:
// limits.runs_per_agent is that key in the file and BATON_LIMITS_RUNS_PER_AGENT in the environment.
// A name that is not a setting is an error, wherever it stands.
//
// It only carries values: nothing below cmd imports it, packages take their own Config structs.
package config

import (
	"log/slog"
	"time"
)

// Config is what a server can be told. Default returns one with every default in place; each field names
// its own. Sizes are written "256KiB" or "8MB" (or as a number of bytes), durations "1m30s".
type Config struct {
	Listen      string   `yaml:"listen"`           // address to serve on (127.0.0.1:8080)
	AdminListen string   `yaml:"admin_listen"`     // address to serve metrics and profiles on, without accounts (none)
	Database    string   `yaml:"database"`         // sqlite:<file> or a postgres:// URL (sqlite:baton.db)
	Takeover    bool     `yaml:"takeover"`         // fence the server that has the PostgreSQL database, and not wait for it (false)
	Insecure    bool     `yaml:"insecure"`         // serve other machines over plain HTTP, as behind a proxy, or without accounts (false)
	Hosts       []string `yaml:"hosts"`            // Host names admitted beside the address and localhost (none)
	Origins     []string `yaml:"origins"`          // web origins admitted beside the server's own (none)
	Credentials bool     `yaml:"cors_credentials"` // pages of origins may have their browsers send cookies and the like (false)
	Proxies     []string `yaml:"trusted_proxies"`  // addresses and networks of proxies that are believed for whom they ask (none)
	KeepEdits   bool     `yaml:"keep_edits"`       // edits in AG-UI's and CopilotKit's clients rewind no thread (false)

	Console bool `yaml:"console"` // show the console to browsers, at / (true)

	TLS         TLS         `yaml:"tls"`
	Auth        Auth        `yaml:"auth"`
	Log         Log         `yaml:"log"`
	Attachments Attachments `yaml:"attachments"`
	Limits      Limits      `yaml:"limits"`
	Retention   Retention   `yaml:"retention"`
	Timeouts    Timeouts    `yaml:"timeouts"`
	Commit      Commit      `yaml:"commit"`
	Stream      Stream      `yaml:"stream"`

	// Path is the file that was read, "" for none. Its sections agents, mcp and workflows are no settings: they are
	// left to who makes plugins of them.
	Path string `yaml:"-"`
}

// TLS names the files that the certificate of listen and its key are read from, again when they change. With accounts, too, listen may be
// an address that other machines reach.
type TLS struct {
	CertFile string `yaml:"cert_file" env:"BATON_TLS_CERT"` // the certificate in PEM, and behind it those between it and its root (none)
	KeyFile  string `yaml:"key_file" env:"BATON_TLS_KEY"`   // its key in PEM (none)
}

// On reports whether TLS is spoken.
func (t TLS) On() bool { return t.CertFile != "" }

// Auth says who may use a server, and how it knows them.
type Auth struct {
	Mode       string        `yaml:"mode" env:"BATON_AUTH"`                             // none, api-key or jwt (none)
	Secret     string        `yaml:"secret,omitempty" env:"BATON_JWT_SECRET" secret:""` // that tokens are signed with: not in a file of settings (none)
	SecretFile string        `yaml:"secret_file" env:"BATON_JWT_SECRET_FILE"`           // a file with the secret that tokens are signed with, and nothing else (none)
	JWKSURL    string        `yaml:"jwks_url" env:"BATON_JWKS_URL"`                     // where the keys are that tokens are signed with (none)
	Issuer     string        `yaml:"issuer" env:"BATON_JWT_ISSUER"`                     // that a token's iss must be (any with a secret)
	Audience   []string      `yaml:"audience" env:"BATON_JWT_AUDIENCE"`                 // of which a token's aud must name one (any with a secret)
	Algorithms []string      `yaml:"algorithms"`                                        // of HS256, or of RS256, ES256 and EdDSA (all that there are keys for)
	Leeway     time.Duration `yaml:"leeway"`                                            // by which clocks may differ (30s)

	UserClaim     string   `yaml:"user_claim"`     // the claim with the user (sub)
	ProjectsClaim string   `yaml:"projects_claim"` // with the projects, the default one first (projects)
	RolesClaim    string   `yaml:"roles_claim"`    // with the roles (roles)
	Roles         []string `yaml:"roles"`          // what roles are here, each as name=role (the roles' own names)
	DefaultRole   string   `yaml:"default_role"`   // of a token that names none: user, viewer, operator, admin, or none to refuse it (user)

	TestPlugins bool `yaml:"test_plugins"` // offer the agents and tools that are there to try things out, with accounts too (false)
}

// Log says what is logged, to standard error.
type Log struct {
	Level  slog.Level `yaml:"level"`  // debug, info, warn or error (info)
	Format string     `yaml:"format"` // text, json, or auto: text on a terminal, else json (auto)
}

// Attachments says where the files lie that users attach to messages, and what is taken.
type Attachments struct {
	Directory string        `yaml:"directory"` // where their bytes lie (baton-attachments, beside the SQLite file)
	URL       string        `yaml:"url"`       // a bucket in the place of the directory, such as s3://name?region=eu-central-1 (none)
	BaseURL   string        `yaml:"base_url"`  // where browsers reach this server, for the URLs that it signs (where a request went)
	Size      Size          `yaml:"size"`      // a file (20MiB)
	Types     []string      `yaml:"types"`     // media types that are taken, as in image/* (png, jpeg, gif, webp, PDF, text, CSV, Markdown, JSON)
	Files     int           `yaml:"files"`     // of a user (1000)
	Bytes     Size          `yaml:"bytes"`     // of all of a user's files (1GiB)
	Uploads   int           `yaml:"uploads"`   // of a user at a time, with accounts, 0 for no limit (8)
	Expires   time.Duration `yaml:"expires"`   // a signed URL (15m)
}

// Limits bounds what a server takes on. What is over a limit on runs waits in the queue; what is over
// the others is refused.
type Limits struct {
	Runs           int  `yaml:"runs"`             // runs executed at once, 0 for what the machine carries: 1000 per core, at most one per MiB of memory (0)
	RunsPerAgent   int  `yaml:"runs_per_agent"`   // of one agent, 0 for no limit of its own (0)
	RunsPerProject int  `yaml:"runs_per_project"` // of one project, 0 for three quarters with accounts, and else no limit of its own (0)
	RunsPerUser    int  `yaml:"runs_per_user"`    // of one user, 0 for a half with accounts, and else no limit of its own (0)
	RunsBytes      Size `yaml:"runs_bytes"`       // what those runs are asked together, each alone as much as it may and those of up to 64KiB apart, 0 for a 16th of the memory, at most 48MiB (0)
	RunsMessages   Size `yaml:"runs_messages"`    // what the messages of those runs have in memory together, those of up to 64KiB apart, 0 for an eighth of the memory (0)
	Queue          int  `yaml:"queue"`            // runs waiting for their turn (10000)
	Body           Size `yaml:"body"`             // a request's body (2MiB)
	Input          Size `yaml:"input"`            // a request's body that starts a run (32MiB)
	Messages       Size `yaml:"messages"`         // the new messages of one run (8MB)
	Append         Size `yaml:"append"`           // the text of a message that is appended to a run (1MiB)
	Event          Size `yaml:"event"`            // an event that an agent emits, 64KiB to 8MB (8MB)
	State          Size `yaml:"state"`            // a thread's state, at most 4MiB (4MiB)

	RequestsPerUser    int `yaml:"requests_per_user"`    // a second, with accounts, 0 for no limit (50)
	BurstPerUser       int `yaml:"burst_per_user"`       // requests that may come at once (200)
	RequestsPerProject int `yaml:"requests_per_project"` // a second, of all users of a project, with accounts, 0 for no limit (500)
	BurstPerProject    int `yaml:"burst_per_project"`    // requests that may come at once (2000)
	StreamsPerUser     int `yaml:"streams_per_user"`     // streams and sockets open at a time, with accounts, 0 for no limit (200)
	StreamsPerProject  int `yaml:"streams_per_project"`  // of all users of a project, with accounts, 0 for no limit (2000)
	QueuePerUser       int `yaml:"queue_per_user"`       // runs waiting for their turn, with accounts, 0 for no limit of its own (1000)
	QueuePerProject    int `yaml:"queue_per_project"`    // of all users of a project, with accounts, 0 for no limit of its own (5000)

	TokensPerDay       int  `yaml:"tokens_per_day"`        // that calls of models take for a project in 24 hours, 0 for no limit (0)
	RunEvents          int  `yaml:"run_events"`            // that a run emits between two answers of its client, until it fails; 0 for no limit (10000000)
	RunMessages        Size `yaml:"run_messages"`          // what the messages of one run have in memory, results of tools and outputs twice, until it fails (64MiB)
	InFlight           Size `yaml:"in_flight"`             // requests, messages and answers that are held for clients, of everybody together (96MiB)
	InFlightPerUser    Size `yaml:"in_flight_per_user"`    // of them for one user, who may have one that is larger, with accounts, 0 for a half (0)
	InFlightPerProject Size `yaml:"in_flight_per_project"` // for all users of a project, with accounts, 0 for three quarters (0)
	Connections        int  `yaml:"connections"`           // open at a time, 0 for as many as the process may have files open, less some (0)
	ConnectionsPerPeer int  `yaml:"connections_per_peer"`  // from one address that is no trusted proxy's, 0 for half of them (0)
	GuessesPerPeer     int  `yaml:"guesses_per_peer"`      // credentials of one address that are wrong in a minute, with accounts, 0 for no limit (60)
	LeastRate          Size `yaml:"least_rate"`            // that clients send and take a second, on the average (4KiB)
}

// Retention says for how many days what is over is kept; 0 is for good.
type Retention struct {
	Runs        int      `yaml:"runs"`        // days that a run is kept after its end, with all that is its own (0: for good)
	Events      int      `yaml:"events"`      // days that a run's events are kept after its end; its result and messages stay (0: for good)
	Attachments int      `yaml:"attachments"` // days that files are kept, whoever refers to them (0: for good)
	Audit       int      `yaml:"audit"`       // days that is known who has asked for what (90)
	Projects    []string `yaml:"projects"`    // other days of some projects, each as project.runs=30, or in a file also as a section for each project (none)
}

// Timeouts bounds how long things take.
type Timeouts struct {
	Step              time.Duration `yaml:"step"`                // one execution of an agent (10m)
	Run               time.Duration `yaml:"run"`                 // a run from its start to its end (1h)
	Tool              time.Duration `yaml:"tool"`                // a tool call (2m)
	Approval          time.Duration `yaml:"approval"`            // a tool or a node that waits for a person, until it is refused (720h)
	Grace             time.Duration `yaml:"grace"`               // a cancelled worker, until it is abandoned (5s)
	Drain             time.Duration `yaml:"drain"`               // runs at work when the server is told to stop (30s)
	OnDisconnectGrace time.Duration `yaml:"on_disconnect_grace"` // a dropped client, until its run is cancelled (3s)
	Lease             time.Duration `yaml:"lease"`               // a silent server, until another takes its place (15s)
	Commit            time.Duration `yaml:"commit"`              // a write that the database does not answer, until who waits for it is told that its outcome is unknown (10s)

	RequestHead time.Duration `yaml:"request_head"` // a request's line and headers, and the handshake of TLS (10s)
	RequestBody time.Duration `yaml:"request_body"` // the whole of a request's body (1m)
	Answer      time.Duration `yaml:"answer"`       // the whole of an answer that is no stream, until it is taken (5m)
	Stall       time.Duration `yaml:"stall"`        // a body that does not get on, or an answer that is not taken (10s)
	Idle        time.Duration `yaml:"idle"`         // a connection between two requests (2m)
}

// Commit tunes how events are gathered into transactions.
type Commit struct {
	Interval    time.Duration `yaml:"interval"`     // between two commits' starts, under load (2ms)
	QueueRun    Size          `yaml:"queue_run"`    // events of one run waiting for a commit (256KiB)
	Queue       Size          `yaml:"queue"`        // events of all runs waiting for a commit (8MiB)
	BatchEvents int           `yaml:"batch_events"` // events in one transaction (1000)
	BatchBytes  Size          `yaml:"batch_bytes"`  // their size (1MiB)
}

// Stream tunes the delivery of events to readers.
type Stream struct {
	RingEvents   int           `yaml:"ring_events"`   // latest events of a thread kept in memory (1024)
	RingBytes    Size          `yaml:"ring_bytes"`    // their size (256KiB)
	Rings        Size          `yaml:"rings"`         // the size of all threads' (64MiB)
	Pace         time.Duration `yaml:"pace"`          // between two writes to a reader, under load (10ms)
	PaceAbove    int           `yaml:"pace_above"`    // live streams above which that holds (64)
	Ping         time.Duration `yaml:"ping"`          // silence after which a stream is pinged (15s)
	WriteTimeout time.Duration `yaml:"write_timeout"` // one write to a reader (30s)
	SendBuffer   Size          `yaml:"send_buffer"`   // the kernel's buffer for a reader (64KiB)
}

// Default returns the settings of a server that was told nothing.
func Default() Config {
	return Config{
		Listen:   "127.0.0.1:8080",
		Database: "sqlite:baton.db",
		Console:  true,
		Auth: Auth{
			Mode: "none", Leeway: 30 * time.Second,
			UserClaim: "sub", ProjectsClaim: "projects", RolesClaim: "roles", DefaultRole: "user",
		},
		Log: Log{Level: slog.LevelInfo, Format: "auto"},
		Attachments: Attachments{
			Size: 20 * mebibyte,
			Types: []string{
				"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
				"text/plain", "text/csv", "text/markdown", "application/json",
			},
			Files:   1000,
			Bytes:   gibibyte,
			Uploads: 8,
			Expires: 15 * time.Minute,
		},
		Limits: Limits{
			Queue:    10_000,
			Body:     2 * mebibyte,
			Input:    32 * mebibyte,
			Messages: 8 * megabyte, Append: mebibyte, Event: 8 * megabyte, State: 4 * mebibyte,

			RequestsPerUser: 50, BurstPerUser: 200, StreamsPerUser: 200, QueuePerUser: 1000,
			RequestsPerProject: 500, BurstPerProject: 2000, StreamsPerProject: 2000, QueuePerProject: 5000,

			RunEvents: 10_000_000, RunMessages: 64 * mebibyte, InFlight: 96 * mebibyte, GuessesPerPeer: 60, LeastRate: 4 * kibibyte,
		},
		Retention: Retention{Audit: 90},
		Timeouts: Timeouts{
			Step:              10 * time.Minute,
			Run:               time.Hour,
			Tool:              2 * time.Minute,
			Approval:          30 * 24 * time.Hour,
			Grace:             5 * time.Second,
			Drain:             30 * time.Second,
			OnDisconnectGrace: 3 * time.Second,
			Lease:             15 * time.Second,
			Commit:            10 * time.Second,

			RequestHead: 10 * time.Second,
			RequestBody: time.Minute,
			Answer:      5 * time.Minute,
			Stall:       10 * time.Second,
			Idle:        2 * time.Minute,
		},
		Commit: Commit{
			Interval:    2 * time.Millisecond,
			QueueRun:    256 * kibibyte,
			Queue:       8 * mebibyte,
			BatchEvents: 1000,
			BatchBytes:  mebibyte,
		},
		Stream: Stream{
			RingEvents:   1024,
			RingBytes:    256 * kibibyte,
			Rings:        64 * mebibyte,
			Pace:         10 * time.Millisecond,
			PaceAbove:    64,
			Ping:         15 * time.Second,
			WriteTimeout: 30 * time.Second,
			SendBuffer:   64 * kibibyte,
		},
	}
}
