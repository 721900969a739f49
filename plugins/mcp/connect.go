package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/child"
)

// connection is a connection to the server.
type connection struct {
	session *sdk.ClientSession
	child   *child.Child  // nil for HTTP
	listed  chan struct{} // has an element after the server's list has changed

	mu       sync.Mutex // guards progress
	progress map[string]func(fraction float64, message string)
}

const (
	minPause = 250 * time.Millisecond // minimum delay before a reconnect
	maxPause = 30 * time.Second
	steady   = 10 * time.Second // a connection that lasted longer is remade at once
	between  = time.Second      // between two lists of the tools
	maxFrame = 8 << 20          // bytes of a message from the server
)

// keep connects and reconnects until ctx ends. It closes tried after the first attempt, whose result is logged.
func (s *Server) keep(ctx context.Context, tried chan struct{}) {
	announce := sync.OnceFunc(func() { close(tried) })
	defer announce()
	pause := minPause
	for {
		begun := time.Now()
		conn, err := s.connect(ctx)
		if err == nil {
			s.set(conn, nil)
		} else {
			err = s.redact(err)
			s.set(nil, fmt.Errorf("the tool server is not connected: %w", err))
		}
		if err == nil {
			announce()
			err = s.redact(s.serve(ctx, conn))
			s.set(nil, fmt.Errorf("the connection to the tool server is lost: %w", err))
			conn.close()
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > steady {
			pause = minPause
		}
		s.log.Warn("tool server unavailable", "error", err, "again", pause)
		announce()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// set changes the connection, or the reason for its absence, and wakes waiting calls.
func (s *Server) set(conn *connection, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || (s.conn == nil) != (conn == nil) {
		s.since = time.Now()
	}
	s.conn, s.trouble = conn, trouble
	close(s.changed)
	s.changed = make(chan struct{})
}

// connect makes a connection and lists the tools.
func (s *Server) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Connect, errors.New("it did not answer in time"))
	defer cancel()
	conn := &connection{listed: make(chan struct{}, 1), progress: map[string]func(float64, string){}}
	transport, err := s.transport(conn)
	if err != nil {
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "baton", Version: "1"}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		KeepAlive:                   30 * time.Second,
		KeepAliveFailureThreshold:   2,
		ProgressNotificationHandler: conn.progressed,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case conn.listed <- struct{}{}:
			default: // already signalled
			}
		},
	})
	conn.session, err = client.Connect(ctx, transport, nil)
	if err == nil {
		err = s.list(ctx, conn)
	}
	if err != nil {
		conn.close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return conn, nil
}

// transport starts the program or uses the endpoint.
func (s *Server) transport(conn *connection) (sdk.Transport, error) {
	if s.cfg.URL != "" {
		return &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.http, MaxEventSize: maxFrame}, nil
	}
	c, err := child.Start(child.Config{Name: s.cfg.Name, Command: s.cfg.Command, Dir: s.cfg.Dir, Env: s.cfg.Env, Log: s.log})
	if err != nil {
		return nil, err
	}
	conn.child = c
	return &pipe{sdk.IOTransport{Reader: c.Output, Writer: c.Input, MaxLineLength: maxFrame}}, nil
}

// serve lists the tools again after changes, and returns the reason for the connection's end.
func (s *Server) serve(ctx context.Context, conn *connection) error {
	ended := make(chan error, 1)
	go func() { ended <- conn.session.Wait() }() // ends with the session, which close ends
	listed := conn.listed
	var calm <-chan time.Time
	for {
		select {
		case <-calm:
			listed, calm = conn.listed, nil
		case <-listed:
			listed, calm = nil, time.After(between)
			listing, cancel := context.WithTimeout(ctx, s.cfg.Connect)
			err := s.list(listing, conn)
			cancel()
			if err != nil {
				s.log.Warn("tools not listed", "error", s.redact(err))
			}
		case err := <-ended:
			if err == nil {
				err = errors.New("it has ended")
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends the session and the program.
func (c *connection) close() {
	if c.session != nil {
		_ = c.session.Close()
	}
	if c.child != nil {
		_ = c.child.Close()
	}
}

// Limits on a server's list of tools.
const (
	maxTools   = 1000
	maxPages   = 1000
	maxListed  = maxFrame // bytes of all names, descriptions and schemas
	maxLeftOut = 10       // ignored tools that are logged individually
)

// list requests the server's tools.
func (s *Server) list(ctx context.Context, conn *connection) error {
	l := &listing{server: s, tools: []plugins.Tool{}, names: map[string]bool{}}
	cursor := ""
	for range maxPages {
		page, err := conn.session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		for _, t := range page.Tools {
			if err := l.add(t); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			l.done()
			return nil
		}
	}
	return fmt.Errorf("the server's list has more than %d pages", maxPages)
}

// listing is a list of tools in progress.
type listing struct {
	server  *Server
	tools   []plugins.Tool
	names   map[string]bool
	size    int // of tools, in bytes
	leftOut int
}

// add adds a valid tool. It fails if the server has too many tools.
func (l *listing) add(t *sdk.Tool) error {
	if allow := l.server.cfg.Allow; len(allow) > 0 && !matches(allow, t.Name) {
		return nil
	}
	tool, err := l.server.tool(t)
	if err == nil && l.names[tool.info.Name] {
		err = errors.New("two tools have the same name")
	}
	if err != nil {
		if l.leftOut++; l.leftOut <= maxLeftOut {
			l.server.log.Warn("tool ignored", "tool", clip(t.Name, maxName), "error", err)
		}
		return nil
	}
	l.size += len(tool.info.Name) + len(tool.info.Description) + len(tool.info.Parameters)
	if len(l.tools) == maxTools || l.size > maxListed {
		return fmt.Errorf("the server has more than %d tools, or %d bytes of tools", maxTools, maxListed)
	}
	l.names[tool.info.Name] = true
	l.tools = append(l.tools, tool)
	return nil
}

// done publishes the listed tools.
func (l *listing) done() {
	if l.leftOut > maxLeftOut {
		l.server.log.Warn("tools ignored", "tools", l.leftOut)
	}
	slices.SortFunc(l.tools, func(a, b plugins.Tool) int { return strings.Compare(a.Info().Name, b.Info().Name) })
	l.server.tools.Store(&l.tools)
}

// reach returns the connection, waiting a short time for a reconnect.
func (s *Server) reach(ctx context.Context) (*connection, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		s.mu.Lock()
		conn, changed, trouble := s.conn, s.changed, s.trouble
		s.mu.Unlock()
		if conn != nil {
			return conn, nil
		}
		select {
		case <-changed:
		case <-limit.C:
			return nil, trouble
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// patience is the maximum time that a call waits for a connection.
const patience = 5 * time.Second
