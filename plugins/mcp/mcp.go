// Package mcp makes tools of those that a server of the Model Context Protocol has: a program that is talked to over its
// standard input and output, or an endpoint of the streamable HTTP transport.
//
// A Server is one plugin with many tools, each named after it: the tool read_file of the server files is
// files.read_file. Its list follows the server's, and keeps what it was while the server is away. A tool whose server
// says that it only reads, or that it may be called twice, is Idempotent; what else a server says of its tools is not
// relied on.
//
// A result's texts are its summary. Images, audio and resources beside them are kept as content parts, and what is
// structured as structuredContent in its ui_hints. Progress that a server tells is shown as the node's.
//
// A server that cannot be reached, or dies, fails the calls that are made of it and is connected again with growing
// pauses; it stops neither runs nor our start. Check says so for a Config that is Required. Programs are started and
// ended as package child says.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
)

// Config says which server it is and what of it is used. It has a Command or a URL.
type Config struct {
	Name string // the front of its tools' names, without a dot

	Command []string          // the program and its arguments
	Dir     string            // where the program runs; default where we do
	Env     map[string]string // its environment beside PATH, HOME and LANG

	URL     string            // of the endpoint, http or https
	Headers map[string]string // of each request to it, such as Authorization; their values are in no error and no log

	Allow    []string // the tools that are offered, by the server's names or patterns such as read_*; default all
	Approval []string // those that a person is asked about before each call, likewise
	Projects []string // those in which the tools are offered, default all

	Timeout  time.Duration // of a call, default the server's of Baton
	Connect  time.Duration // how long connecting, and the list of tools, may take, default 30s; Start waits that long at most
	Required bool          // Check fails while the server is away

	Client *http.Client // default one of its own; its CheckRedirect is not used
	Log    *slog.Logger // default slog.Default
}

// Server is a server of tools.
type Server struct {
	cfg    Config
	log    *slog.Logger
	http   *http.Client
	secret []string // what no error shows

	tools atomic.Pointer[[]plugins.Tool]

	cancel context.CancelFunc // ends the goroutine of Start
	done   chan struct{}      // closed when it has ended

	mu      sync.Mutex    // guards the fields below
	conn    *connection   // nil while there is none
	changed chan struct{} // closed, and made anew, when conn or trouble is another
	trouble error         // why there is none
	since   time.Time     // when there began to be one, or none; zero before the first attempt
}

var (
	_ plugins.Toolbox = (*Server)(nil)
	_ plugins.Starter = (*Server)(nil)
	_ plugins.Closer  = (*Server)(nil)
	_ plugins.Checker = (*Server)(nil)

	_ plugins.Reporter = (*Server)(nil)
)

var serverName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,40}$`)

// New returns the server that cfg tells of. It starts nothing.
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
		u, err := url.Parse(cfg.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("the url must begin with http:// or https:// and a host")
		}
	}
	for name, v := range cfg.Headers {
		if name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(v, "\r\n\x00") {
			return nil, fmt.Errorf("header %q: a name or a value that HTTP does not allow", name)
		}
	}
	for _, pattern := range slices.Concat(cfg.Allow, cfg.Approval) {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("tool %q: %w", pattern, err)
		}
	}
	cfg.Headers, cfg.Env = maps.Clone(cfg.Headers), maps.Clone(cfg.Env)
	cfg.Connect = cmp.Or(cfg.Connect, 30*time.Second)
	s := &Server{cfg: cfg, log: cmp.Or(cfg.Log, slog.Default()).With("mcp", cfg.Name), changed: make(chan struct{}), trouble: errAway}
	s.http, s.secret = newClient(&cfg), secrets(&cfg)
	s.tools.Store(&[]plugins.Tool{})
	return s, nil
}

// Info names the server.
func (s *Server) Info() plugins.Info {
	return plugins.Info{Name: s.cfg.Name, Description: "Tools of an MCP server", Projects: s.cfg.Projects}
}

// Tools returns the tools that the server has told of last, sorted by name.
func (s *Server) Tools() []plugins.Tool { return *s.tools.Load() }

// Findable fails when there is no such program.
func (s *Server) Findable() error {
	if len(s.cfg.Command) == 0 {
		return nil
	}
	return child.Find(s.cfg.Command, s.cfg.Dir)
}

// Start connects, waits until the tools are known or the server turns out to be away, and keeps it connected until Close.
// It fails only when there is no such program.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Findable(); err != nil {
		return err
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.done = cancel, make(chan struct{})
	tried := make(chan struct{})
	go func() { // ends with Close
		defer close(s.done)
		s.keep(keep, tried)
	}()
	select {
	case <-tried:
		return nil
	case <-ctx.Done():
		_ = s.Close()
		return context.Cause(ctx)
	}
}

// Close ends the connection, and the program with what it has started.
func (s *Server) Close() error {
	if s.cancel == nil {
		return nil
	}
	s.cancel()
	<-s.done
	s.http.CloseIdleConnections()
	return nil
}

// Check fails while the server of a Config that is Required is away.
func (s *Server) Check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Required && s.conn == nil {
		return s.trouble
	}
	return nil
}

// Health tells whether the server is connected.
func (s *Server) Health() *plugins.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.since.IsZero():
		return nil
	case s.conn == nil:
		return &plugins.Health{Since: s.since, Detail: clip(s.trouble.Error(), maxDetail)}
	}
	return &plugins.Health{OK: true, Since: s.since}
}

// maxDetail is how much is told of what is wrong, in bytes.
const maxDetail = 500

// errAway means that there was no connection yet.
var errAway = errors.New("the tool server is not connected")

// matches reports whether a tool of the server is one of patterns.
func matches(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, tool)
		return err == nil && ok
	})
}
