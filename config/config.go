// Package config reads the settings of a Baton server: defaults, then a YAML file, then environment variables,
// then flags. Each source overrides the ones before it. A setting has one name in all of them:
// limits.runs_per_user in the file is BATON_LIMITS_RUNS_PER_USER in the environment. An unknown name is an error.
//
// The package only carries values. Nothing below cmd imports it; other packages have their own Config structs.
package config

import (
	"cmp"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config holds all settings. Default returns it with every default set; each field names its own. Sizes are written
// "256KiB" or "8MB" (or as a number of bytes), durations "1m30s".
type Config struct {
	Listen      string   `yaml:"listen"`          // address and port to serve on (127.0.0.1:8080)
	AdminListen string   `yaml:"admin_listen"`    // separate address for metrics and profiles, without authentication; empty = none (none)
	Database    string   `yaml:"database"`        // sqlite:<file> or a postgres:// URL, with commas between several hosts (sqlite:baton.db)
	NATS        string   `yaml:"nats"`            // nats:// or tls:// URLs, with commas, of NATS servers that carry hints between the servers of a cluster; empty = PostgreSQL does (none)
	Name        string   `yaml:"name"`            // name that this server of a PostgreSQL database has again after a restart; empty = that of its pod in Kubernetes, or none (none)
	Role        string   `yaml:"role"`            // what this server of a PostgreSQL database does: all, gateway (it executes no runs) or worker (it serves no clients) (all)
	Labels      []string `yaml:"labels"`          // labels of this server: it executes agents with such a run_on (none)
	Insecure    bool     `yaml:"insecure"`        // allow other machines to connect over plain HTTP or without authentication (false)
	Hosts       []string `yaml:"hosts"`           // host names that requests may use, besides localhost and the server's address (none)
	Origins     []string `yaml:"origins"`         // origins of web pages that may call the server, besides its own (none)
	Proxies     []string `yaml:"trusted_proxies"` // addresses and networks of proxies whose X-Forwarded headers the server trusts (none)
	KeepEdits   bool     `yaml:"keep_edits"`      // keep a thread as it is when an AG-UI or CopilotKit client edits an earlier message, instead of rewinding it (false)
	Prompts     bool     `yaml:"prompts"`         // keep what models were sent and answered, for GET .../model-calls, until the run is deleted (true)
	Console     bool     `yaml:"console"`         // serve the console at / (true)

	TLS         TLS         `yaml:"tls"`
	Auth        Auth        `yaml:"auth"`
	Log         Log         `yaml:"log"`
	Attachments Attachments `yaml:"attachments"`
	Limits      Limits      `yaml:"limits"`
	Retention   Retention   `yaml:"retention"`
	Timeouts    Timeouts    `yaml:"timeouts"`

	// Path is the file that was read, "" for none. Package declared reads its sections agents, budgets, mcp, prices, providers and workflows, which are no settings.
	Path string `yaml:"-"`
}

// Private returns the SQLite file, "" for none, and the paths that agents must not show to users: of data, settings and keys.
func (c Config) Private() (database string, paths []string) {
	attachments := c.Attachments.Directory
	if file, ok := strings.CutPrefix(c.Database, "sqlite:"); ok {
		database = file
		attachments = cmp.Or(attachments, filepath.Join(filepath.Dir(file), "baton-attachments"))
	}
	paths = []string{database, attachments, c.Path, c.TLS.KeyFile, c.Auth.SecretFile}
	return database, slices.DeleteFunc(paths, func(p string) bool { return p == "" })
}

// TLS turns on HTTPS. The server reloads both files when they change. With HTTPS and authentication, listen may be an address that other machines can reach.
type TLS struct {
	CertFile string `yaml:"cert_file" env:"BATON_TLS_CERT"` // PEM file with the certificate, followed by its intermediates (none)
	KeyFile  string `yaml:"key_file" env:"BATON_TLS_KEY"`   // PEM file with the certificate's private key (none)
}

// On reports whether the server uses TLS.
func (t TLS) On() bool { return t.CertFile != "" }

// Auth sets how the server authenticates requests.
type Auth struct {
	Mode       string   `yaml:"mode" env:"BATON_AUTH"`                             // api-key, jwt, or none to turn authentication off (none)
	Secret     string   `yaml:"secret,omitempty" env:"BATON_JWT_SECRET" secret:""` // secret that signs tokens; a settings file must not contain it (none)
	SecretFile string   `yaml:"secret_file" env:"BATON_JWT_SECRET_FILE"`           // file that contains only the secret that signs tokens (none)
	JWKSURL    string   `yaml:"jwks_url" env:"BATON_JWKS_URL"`                     // URL of the public keys (JWKS) that verify tokens (none)
	Issuer     string   `yaml:"issuer" env:"BATON_JWT_ISSUER"`                     // iss that tokens must have; required with jwks_url (any with a secret)
	Audience   []string `yaml:"audience" env:"BATON_JWT_AUDIENCE"`                 // a token's aud must contain one of these; required with jwks_url (any with a secret)

	UserClaim     string   `yaml:"user_claim"`     // claim that holds the user (sub)
	ProjectsClaim string   `yaml:"projects_claim"` // claim that lists the user's projects, the default one first (projects)
	RolesClaim    string   `yaml:"roles_claim"`    // claim that lists the user's roles (roles)
	Roles         []string `yaml:"roles"`          // translates roles in tokens to user, viewer, operator or admin, each as name=role (the roles' own names)
	DefaultRole   string   `yaml:"default_role"`   // role of a token that names none: user, viewer, operator, admin, or none to reject the token (user)

	TestPlugins bool `yaml:"test_plugins"` // offer the built-in test agents and tools even with authentication (false)
}

// Log configures the log on standard error.
type Log struct {
	Level  slog.Level `yaml:"level"`  // debug, info, warn or error (info)
	Format string     `yaml:"format"` // text, json, or auto: text on a terminal, json elsewhere (auto)
}

// Attachments sets where the files that users attach to messages are stored, and limits them.
type Attachments struct {
	Directory string   `yaml:"directory"` // directory for the files; empty = baton-attachments beside the SQLite file, or the PostgreSQL database itself (none)
	URL       string   `yaml:"url"`       // bucket for the files instead of a directory, such as s3://name?region=eu-central-1 (none)
	BaseURL   string   `yaml:"base_url"`  // URL under which browsers reach this server, for signed links; empty = the address of the request (none)
	Size      Size     `yaml:"size"`      // largest file (20MiB)
	Types     []string `yaml:"types"`     // accepted media types; image/* accepts all images (png, jpeg, gif, webp, PDF, text, CSV, Markdown, JSON)
	Bytes     Size     `yaml:"bytes"`     // total size of one user's files (1GiB)
}

// Limits protects the server and divides it among users. Runs over a limit wait in the queue; other requests over a limit are refused. Limits per user and per project need authentication.
type Limits struct {
	Runs           int  `yaml:"runs"`             // runs executing at once; 0 = one per MiB of memory, at most 10000 (0)
	RunsPerProject int  `yaml:"runs_per_project"` // runs of one project executing at once; 0 = three quarters of runs (0)
	RunsPerUser    int  `yaml:"runs_per_user"`    // runs of one user executing at once; 0 = half of runs (0)
	RunsBytes      Size `yaml:"runs_bytes"`       // total input of executing runs, where inputs up to 64KiB do not count; 0 = a 16th of memory, at most 48MiB (0)
	RunsMessages   Size `yaml:"runs_messages"`    // memory for the messages of executing runs, where up to 64KiB of a run do not count; 0 = an eighth of memory (0)
	Queue          int  `yaml:"queue"`            // runs waiting in the queue; one project may use half of it, one user a tenth (10000)
	Input          Size `yaml:"input"`            // largest request that starts a run (32MiB)

	RequestsPerUser    int `yaml:"requests_per_user"`    // requests of one user per second, in bursts of up to four seconds; 0 = no limit (50)
	RequestsPerProject int `yaml:"requests_per_project"` // requests of one project per second, in bursts of up to four seconds; 0 = no limit (500)
	StreamsPerUser     int `yaml:"streams_per_user"`     // streams and WebSockets that one user may have open; 0 = no limit (200)
	StreamsPerProject  int `yaml:"streams_per_project"`  // streams and WebSockets that one project may have open; 0 = no limit (2000)
}

// Retention sets for how many days data is kept; 0 = keep forever.
type Retention struct {
	Runs        int      `yaml:"runs"`        // days to keep a run and everything that belongs to it after it ends (0: forever)
	Events      int      `yaml:"events"`      // days to keep the events of a run after it ends; its result and messages stay (0: forever)
	Attachments int      `yaml:"attachments"` // days to keep attached files, even if messages refer to them (0: forever)
	Audit       int      `yaml:"audit"`       // days to keep the audit log (90)
	Projects    []string `yaml:"projects"`    // other days for single projects, each as project.runs=30, or in a file as one section per project (none)
}

// Timeouts limits how long things may take.
type Timeouts struct {
	Step              time.Duration `yaml:"step"`                // longest execution of one agent (10m)
	Run               time.Duration `yaml:"run"`                 // longest run, without the time in which it waits for answers (1h)
	Tool              time.Duration `yaml:"tool"`                // longest tool call (2m)
	Approval          time.Duration `yaml:"approval"`            // how long an approval may stay open before it counts as refused (720h)
	Drain             time.Duration `yaml:"drain"`               // how long runs may take to finish when the server stops (30s)
	OnDisconnectGrace time.Duration `yaml:"on_disconnect_grace"` // how long a client may be disconnected before its run is cancelled (10s)
	AgentGone         time.Duration `yaml:"agent_gone"`          // how long a run waits on PostgreSQL for a server that offers its agent, before it fails (15m)
	Lease             time.Duration `yaml:"lease"`               // how long a server of a PostgreSQL database must be silent before the others take its runs over (6s)
	Ping              time.Duration `yaml:"ping"`                // how often an idle stream is pinged; a client that reads nothing for twice as long is disconnected (15s)
}

// Default returns the default settings.
func Default() Config {
	return Config{
		Listen:   "127.0.0.1:8080",
		Database: "sqlite:baton.db",
		Prompts:  true,
		Console:  true,
		Role:     RoleAll,
		Auth:     Auth{Mode: AuthNone, UserClaim: "sub", ProjectsClaim: "projects", RolesClaim: "roles", DefaultRole: "user"},
		Log:      Log{Level: slog.LevelInfo, Format: "auto"},
		Attachments: Attachments{
			Size: 20 * mebibyte,
			Types: []string{
				"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf",
				"text/plain", "text/csv", "text/markdown", "application/json",
			},
			Bytes: gibibyte,
		},
		Limits: Limits{
			Queue: 10_000, Input: 32 * mebibyte,
			RequestsPerUser: 50, RequestsPerProject: 500, StreamsPerUser: 200, StreamsPerProject: 2000,
		},
		Retention: Retention{Audit: 90},
		Timeouts: Timeouts{
			Step:              10 * time.Minute,
			Run:               time.Hour,
			Tool:              2 * time.Minute,
			Approval:          30 * 24 * time.Hour,
			Drain:             30 * time.Second,
			OnDisconnectGrace: 10 * time.Second,
			AgentGone:         15 * time.Minute,
			Lease:             6 * time.Second,
			Ping:              15 * time.Second,
		},
	}
}
