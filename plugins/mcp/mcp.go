// Package mcp offers the tools of servers of the Model Context Protocol. A server is a program connected by its standard
// input and output, or an endpoint of the streamable HTTP transport.
//
// A Server is one plugin with many tools, named after it: the tool read_file of the server files is files.read_file. A name
// that does not fit is shortened with a hash. The list follows the server's, and stays unchanged while the server is
// unavailable. A tool that the server annotates as read-only or idempotent is Idempotent; other annotations are ignored.
//
// The texts of a result are its summary, to which structured content is added unless the texts are the same JSON. Images, audio and
// resources become content parts, and structured content becomes structuredContent in ui_hints. It is left out if its texts and data stand
// in the content, and data that is a part stands nowhere else. Progress notifications become the node's progress.
//
// Servers are read leniently, before the SDK decodes their messages: see tap. A refusal is reported with its HTTP status and the
// server's sentence.
//
// Start waits for nothing. If a server cannot be reached or dies, its calls fail and Baton reconnects with growing pauses; runs and Baton's start
// continue. Check reports it if Config.Required is set. See package child for programs.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
	"github.com/batonrun/baton/plugins/problem"
	"github.com/batonrun/baton/plugins/web"
)

// Config describes a server and the use of its tools. It has a Command or a URL.
type Config struct {
	Name string // prefix of the tools' names, without a dot

	Command []string          // the program and its arguments
	Dir     string            // the program's working directory; default ours
	Env     map[string]string // its environment in addition to PATH, HOME and LANG

	URL     string            // of the endpoint, http or https
	Headers map[string]string // of each request, such as Authorization; the values never appear in errors and logs

	Allow    []string // the offered tools, by the server's names or patterns such as read_*; default all
	Approval []string // the tools that need a person's approval for each call, likewise
	Projects []string // projects in which the tools are offered, default all

	Approver plugins.Approver // who may approve these calls, and what they see

	Timeout  time.Duration // of a call; default Baton's
	Connect  time.Duration // time limit for connecting and listing tools, default 30s
	Required bool          // Check fails while the server is unavailable

	Client *http.Client // by default the server has its own; its CheckRedirect and Timeout are not used
	Log    *slog.Logger // default slog.Default
}

// Server is an MCP server.
type Server struct {
	cfg     Config
	log     *slog.Logger
	http    *http.Client
	secrets *problem.Secrets

	tools atomic.Pointer[[]plugins.Tool]
	tasks tasks
	child atomic.Pointer[child.Child] // the latest program; nil for an endpoint

	cancel  context.CancelFunc // ends the goroutine of Start
	settled chan struct{}      // closed after its first attempt to connect
	done    chan struct{}      // closed after it has ended
	wanted  chan struct{}      // has an element while a call waits for a connection

	mu      sync.Mutex    // guards the fields below
	conn    *connection   // nil without a connection
	changed chan struct{} // closed and replaced when conn or trouble changes
	tries   int           // attempts to connect that have failed
	closed  bool          // the port refused the latest of them
	trouble error         // why conn is nil, or why it refused the latest call
	since   time.Time     // time of the last change between connected and not; zero before the first attempt
}

var (
	_ plugins.Toolbox = (*Server)(nil)
	_ plugins.Starter = (*Server)(nil)
	_ plugins.Closer  = (*Server)(nil)
	_ plugins.Checker = (*Server)(nil)

	_ plugins.Settler  = (*Server)(nil)
	_ plugins.Reporter = (*Server)(nil)
)

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$`)

// New returns the server described by cfg without connecting.
func New(cfg Config) (*Server, error) {
	switch {
	case !serverName.MatchString(cfg.Name):
		return nil, fmt.Errorf("the name must match %s", serverName)
	case (len(cfg.Command) == 0) == (cfg.URL == ""):
		return nil, errors.New("must have a command or a url, and not both")
	case len(cfg.Command) > 0 && cfg.Command[0] == "":
		return nil, errors.New("the command is empty")
	case cfg.Timeout < 0 || cfg.Connect < 0:
		return nil, errors.New("a limit is negative")
	}
	if cfg.URL != "" {
		if _, err := web.Address(cfg.URL); err != nil {
			return nil, fmt.Errorf("the url %w", err)
		}
	}
	if err := web.CheckHeaders(cfg.Headers); err != nil {
		return nil, err
	}
	for _, pattern := range slices.Concat(cfg.Allow, cfg.Approval) {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("tool %q: %w", pattern, err)
		}
	}
	cfg.Headers, cfg.Env = maps.Clone(cfg.Headers), maps.Clone(cfg.Env)
	cfg.Connect = cmp.Or(cfg.Connect, 30*time.Second)
	s := &Server{cfg: cfg, tasks: tasks{of: map[*asker]string{}}, log: cmp.Or(cfg.Log, slog.Default()).With("mcp", cfg.Name), settled: make(chan struct{}), wanted: make(chan struct{}, 1), changed: make(chan struct{}), trouble: errAway}
	s.http, s.secrets = newClient(&cfg, s.log), secrets(&cfg)
	s.tools.Store(&[]plugins.Tool{})
	return s, nil
}

// Info names the server.
func (s *Server) Info() plugins.Info {
	return plugins.Info{Name: s.cfg.Name, Description: "Tools of an MCP server", Projects: s.cfg.Projects, Approver: s.cfg.Approver}
}

// Tools returns the latest list of tools, sorted by name.
func (s *Server) Tools() []plugins.Tool { return *s.tools.Load() }

// Findable fails if the program does not exist.
func (s *Server) Findable() error {
	if len(s.cfg.Command) == 0 {
		return nil
	}
	return child.Find(s.cfg.Command, s.cfg.Dir)
}

// Begin starts the program before Start, and fails if it cannot be connected. Close it then. A server at an address can be away for a while:
// for one, Begin does nothing.
func (s *Server) Begin(ctx context.Context) error {
	if len(s.cfg.Command) == 0 {
		return nil
	}
	_ = s.Start(ctx) // never fails
	select {
	case <-s.settled:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble
}

// Start begins to connect, unless Begin did, and keeps connecting until Close. It does not wait and does not fail, because the server's
// start must depend on no tool server: Health has the reason of an absence.
func (s *Server) Start(ctx context.Context) error {
	if s.cancel != nil {
		return nil
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.done = cancel, make(chan struct{})
	go func() { // ends with Close
		defer close(s.done)
		s.keep(keep)
	}()
	return nil
}

// Settled returns a channel that is closed once the tools are known or the first attempt to connect has failed.
func (s *Server) Settled() <-chan struct{} { return s.settled }

// Close ends the connection, the program and its descendants. It kills the program once ctx is done.
func (s *Server) Close(ctx context.Context) error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	defer context.AfterFunc(ctx, func() {
		if c := s.child.Load(); c != nil {
			c.Kill()
		}
	})()
	<-s.done
	s.http.CloseIdleConnections()
	return nil
}

// Check fails while a Required server is unavailable.
func (s *Server) Check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Required && s.conn == nil {
		return s.trouble
	}
	return nil
}

// Health returns whether the server is connected.
func (s *Server) Health() *plugins.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.since.IsZero():
		return nil
	case s.trouble != nil:
		return &plugins.Health{Since: s.since, Detail: clip(s.trouble.Error(), maxDetail)}
	}
	return &plugins.Health{OK: true, Since: s.since}
}

// maxDetail limits the description of a problem, in bytes.
const maxDetail = 500

// errAway is the state before the first connection.
var errAway = errors.New("the tool server is not connected")

// matches reports whether one of the patterns matches a tool.
func matches(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, tool)
		return err == nil && ok
	})
}
