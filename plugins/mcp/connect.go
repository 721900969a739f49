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

// connection is one with the server.
type connection struct {
	session *sdk.ClientSession
	child   *child.Child  // nil for HTTP
	listed  chan struct{} // holds one when the server's list has changed

	mu       sync.Mutex // guards progress
	progress map[string]func(fraction float64, message string)
}

const (
	minPause = 250 * time.Millisecond // before a connection is tried again
	maxPause = 30 * time.Second
	steady   = 10 * time.Second // a connection that has stood so long is tried again at once
	maxFrame = 8 << 20          // bytes of a message of the server
)

// keep connects, and connects again, until ctx ends. tried is closed after the first attempt.
func (s *Server) keep(ctx context.Context, tried chan struct{}) {
	pause := minPause
	for {
		begun := time.Now()
		conn, err := s.connect(ctx)
		if err == nil {
			s.set(conn, nil)
		} else {
			s.set(nil, fmt.Errorf("the tool server is not connected: %w", err))
		}
		if tried != nil {
			close(tried)
			tried = nil
		}
		if err == nil {
			err = s.serve(ctx, conn)
			s.set(nil, fmt.Errorf("the connection to the tool server is lost: %w", err))
			conn.close()
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > steady {
			pause = minPause
		}
		s.log.Warn("tool server is away", "error", err, "again", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// set says which connection there is, or why there is none, and wakes those that wait for one.
func (s *Server) set(conn *connection, trouble error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
			default: // it will be listed anyway
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

// transport starts the program, or takes the endpoint.
func (s *Server) transport(conn *connection) (sdk.Transport, error) {
	if s.cfg.URL != "" {
		return &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: s.http, MaxEventSize: maxFrame}, nil
	}
	c, err := child.Start(child.Config{Name: s.cfg.Name, Command: s.cfg.Command, Dir: s.cfg.Dir, Env: s.cfg.Env, Log: s.log})
	if err != nil {
		return nil, err
	}
	conn.child = c
	return &sdk.IOTransport{Reader: c.Output, Writer: c.Input, MaxLineLength: maxFrame}, nil
}

// serve lists the tools anew when they have changed, and returns why the connection has ended.
func (s *Server) serve(ctx context.Context, conn *connection) error {
	ended := make(chan error, 1)
	go func() { ended <- conn.session.Wait() }() // ends with the session, which close ends
	for {
		select {
		case <-conn.listed:
			listing, cancel := context.WithTimeout(ctx, s.cfg.Connect)
			err := s.list(listing, conn)
			cancel()
			if err != nil {
				s.log.Warn("tools could not be listed", "error", err)
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

// maxTools is how many tools of a server are listed.
const maxTools = 1000

// list asks the server for its tools.
func (s *Server) list(ctx context.Context, conn *connection) error {
	tools := []plugins.Tool{}
	names := map[string]bool{}
	for t, err := range conn.session.Tools(ctx, nil) {
		switch {
		case err != nil:
			return fmt.Errorf("list tools: %w", err)
		case len(s.cfg.Allow) > 0 && !matches(s.cfg.Allow, t.Name):
			continue
		case len(tools) == maxTools:
			return fmt.Errorf("the server has more than %d tools", maxTools)
		}
		tool, err := s.tool(t)
		if err == nil && names[tool.info.Name] {
			err = errors.New("two tools would be of one name")
		}
		if err != nil {
			s.log.Warn("a tool is left out", "tool", t.Name, "error", err)
			continue
		}
		names[tool.info.Name] = true
		tools = append(tools, tool)
	}
	slices.SortFunc(tools, func(a, b plugins.Tool) int { return strings.Compare(a.Info().Name, b.Info().Name) })
	s.tools.Store(&tools)
	return nil
}

// reach returns the connection, and waits a little for one that is being made again.
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

// patience is how long a call waits for a connection.
const patience = 5 * time.Second
