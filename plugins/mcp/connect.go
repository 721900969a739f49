package mcp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins/child"
)

// connection is a connection to the server.
type connection struct {
	session *sdk.ClientSession
	child   *child.Child // nil for HTTP
	tap     *tap
	old     bool               // it is HTTP+SSE, the transport of 2024
	stop    context.CancelFunc // ends the stream of HTTP+SSE
	listed  chan struct{}      // has an element after the server's list has changed
	broken  chan error         // has an element after the connection was found to be lost

	mu       sync.Mutex // guards progress
	progress map[string]func(fraction float64, message string)
}

const (
	minPause = 250 * time.Millisecond // minimum delay before a reconnect
	maxPause = 30 * time.Second
	steady   = 10 * time.Second // a connection that lasted longer is remade at once
	between  = time.Second      // between two lists of the tools
	maxFrame = 16 << 20         // bytes of a message from the server, which can have a picture of 5 MB twice
	maxEvent = 2 * maxFrame     // bytes of an event for the SDK; encoding a message can make it longer
)

// keep connects and reconnects until ctx ends. It closes settled after the first attempt, whose result is logged.
func (s *Server) keep(ctx context.Context) {
	announce := sync.OnceFunc(func() { close(s.settled) })
	defer announce()
	pause := minPause
	for {
		begun := time.Now()
		conn, err := s.connect(ctx)
		if err == nil {
			s.set(conn, nil)
		} else {
			s.tried(errors.Is(err, syscall.ECONNREFUSED))
			err = s.redact(err)
			s.set(nil, fmt.Errorf("the tool server is not connected: %w", err))
		}
		if err == nil {
			announce()
			err = s.serve(ctx, conn)
			s.set(nil, errLost)
			conn.close()
			err = s.redact(conn.reason(err))
			s.set(nil, fmt.Errorf("%w: %w", errLost, err))
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > steady {
			pause = minPause
		}
		s.log.Warn("tool server unavailable", "error", err, "again", pause.String(), "help", "baton doctor checks its program or address")
		announce()
		again := time.After(minPause)
		select {
		case <-time.After(pause):
		case <-s.wanted: // by a call that waits
			<-again
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// tried notes an attempt to connect that has failed. closed means that the server's port refuses connections.
func (s *Server) tried(closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries, s.closed = s.tries+1, closed
}

var errLost = errors.New("the connection to the tool server is lost")

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

// doubt records the reason for which the server refused a call, nil after one that it answered.
func (s *Server) doubt(conn *connection, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != conn {
		return
	}
	if (s.trouble == nil) != (refused == nil) {
		s.since = time.Now()
	}
	s.trouble = refused
}

// connect makes a connection and lists the tools.
func (s *Server) connect(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Connect, errors.New("it did not answer in time"))
	defer cancel()
	conn, err := s.join(ctx, false)
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok || refused.status == 0:
		return conn, err
	case !refused.unknown():
		return nil, fmt.Errorf("it %w", refused)
	}
	if old, err := s.join(ctx, true); err == nil {
		s.log.Info("the tool server has only the transport HTTP+SSE of 2024")
		return old, nil
	}
	return nil, fmt.Errorf("it %w; it speaks neither streamable HTTP nor HTTP+SSE", refused)
}

// maxProbe limits the time in which a server without streamable HTTP must offer a stream of HTTP+SSE.
const maxProbe = 10 * time.Second

// join makes a connection by one of the transports.
func (s *Server) join(ctx context.Context, old bool) (*connection, error) {
	conn := &connection{
		tap: newTap(s.log, s.secrets, &s.tasks), old: old, listed: make(chan struct{}, 1), broken: make(chan error, 1), progress: map[string]func(float64, string){},
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	conn.stop = stop
	if old {
		limit := time.AfterFunc(maxProbe, conn.stop)
		defer limit.Stop()
	}
	defer context.AfterFunc(ctx, conn.stop)()
	ctx, x := withExchange(ctx)
	transport, err := s.transport(keep, conn)
	if err != nil {
		stop()
		return nil, err
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "baton", Version: "1"}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}, URL: &sdk.URLElicitationCapabilities{}},
			Extensions:  map[string]any{taskExtension: struct{}{}},
		},
		ElicitationHandler:          conn.elicited,
		KeepAlive:                   30 * time.Second,
		KeepAliveFailureThreshold:   2,
		ProgressNotificationHandler: conn.progressed,
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { conn.relist() },
	})
	if err = allowTasks(client); err == nil {
		conn.session, err = client.Connect(ctx, transport, nil)
	}
	if err == nil {
		err = s.list(ctx, conn)
	}
	if err != nil {
		_, refused, _ := x.outcome()
		conn.close()
		switch cause := context.Cause(ctx); {
		case cause != nil:
			err = cause
		case refused != nil:
			err = refused
		}
		return nil, conn.reason(err)
	}
	return conn, nil
}

// reason returns why a connection has ended: of a program its exit and its last lines.
func (c *connection) reason(err error) error {
	if c.child == nil {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) || errors.Is(err, sdk.ErrConnectionClosed) || err == nil {
		err = cmp.Or(c.child.Err(), errors.New("it has ended"))
	}
	if words := c.child.LastWords(); words != "" {
		err = fmt.Errorf("%w; it said: %s", err, words)
	}
	return err
}

// relist requests a new list of the tools.
func (c *connection) relist() {
	select {
	case c.listed <- struct{}{}:
	default: // already requested
	}
}

// fail ends the connection for a reason.
func (c *connection) fail(err error) {
	select {
	case c.broken <- err:
	default: // it ends already
	}
}

// transport starts the program or uses the endpoint. Streams of HTTP+SSE end with ctx.
func (s *Server) transport(ctx context.Context, conn *connection) (sdk.Transport, error) {
	if s.cfg.URL != "" {
		client := s.http.Transport.(*caller).of(s.http, conn)
		if conn.old {
			t := sdk.SSEClientTransport{Endpoint: s.cfg.URL, HTTPClient: client, MaxEventSize: maxEvent}
			return connector(func(context.Context) (sdk.Connection, error) { return t.Connect(ctx) }), nil
		}
		return &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: client, MaxEventSize: maxEvent}, nil
	}
	c, err := child.Start(child.Config{Name: s.cfg.Name, Command: s.cfg.Command, Dir: s.cfg.Dir, Env: s.cfg.Env, Log: s.log})
	if err != nil {
		return nil, err
	}
	conn.child = c
	s.child.Store(c)
	l := &lines{child: c, tap: conn.tap, in: bufio.NewReaderSize(c.Output, 64<<10)}
	return connector(func(context.Context) (sdk.Connection, error) { return l, nil }), nil
}

// connector is a transport that is a function.
type connector func(context.Context) (sdk.Connection, error)

// Connect calls the function.
func (c connector) Connect(ctx context.Context) (sdk.Connection, error) { return c(ctx) }

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
			if refused, ok := errors.AsType[*refusal](err); ok && refused.status > 0 {
				return err // even what worked before
			}
			if err != nil {
				s.log.Warn("tools not listed", "error", s.redact(err))
			}
		case err := <-ended:
			if err == nil && conn.child == nil {
				err = errors.New("it has ended")
			}
			return err
		case err := <-conn.broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave ends the session with an endpoint.
func (c *connection) leave() {
	if c.child == nil {
		_ = c.session.Close()
	}
}

// close ends the session and the program.
func (c *connection) close() {
	defer c.stop()
	if c.session != nil {
		_ = c.session.Close()
	}
	if c.child != nil {
		_ = c.child.Close(context.Background())
	}
}

// reach returns the connection. Without one it has the server tried at once, and waits as long as the call's time limit allows, but not
// for a server that refuses connections.
func (s *Server) reach(ctx context.Context) (*connection, error) {
	var limit <-chan time.Time
	if end, ok := ctx.Deadline(); ok { // a little earlier, because then the error says what is missing
		left := time.Until(end)
		limit = time.After(left - min(left/10, time.Second))
	}
	for before := -1; ; {
		s.mu.Lock()
		conn, changed, trouble, tries, closed := s.conn, s.changed, s.trouble, s.tries, s.closed
		s.mu.Unlock()
		switch {
		case conn != nil:
			return conn, nil
		case before < 0:
			before = tries
			s.hurry()
		case closed && tries > before:
			return nil, trouble
		}
		select {
		case <-changed:
		case <-limit:
			return nil, trouble
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// hurry ends the pause before the next attempt to connect.
func (s *Server) hurry() {
	select {
	case s.wanted <- struct{}{}:
	default: // already requested
	}
}
