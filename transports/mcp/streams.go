package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime"
)

// Serve serves a caller over a pair of streams, one line per message, and closes them. It answers other lines with an error. When in
// ends it answers the open requests and returns nil; when ctx ends it returns ctx's error.
func (t Transport) Serve(ctx context.Context, who runtime.Caller, in io.ReadCloser, out io.WriteCloser) error {
	ctx = context.WithValue(ctx, callerKey{}, who)
	w := &locked{WriteCloser: out}
	r := &lineReader{Closer: in, lines: NewLines(in, w)}
	return t.server().Run(ctx, draining{&sdk.IOTransport{Reader: r, Writer: w, MaxLineLength: -1}}) // Lines limits them
}

// draining is a transport whose connection ends only when all requests are answered: the server would cancel them.
type draining struct{ sdk.Transport }

func (p draining) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.Transport.Connect(ctx)
	pc := &drainingConn{Connection: c, asked: make(map[jsonrpc.ID]struct{})}
	pc.changed.L = &pc.mu
	return pc, err
}

type drainingConn struct {
	sdk.Connection
	changed sync.Cond // of the fields below

	mu     sync.Mutex              // guards the fields below
	asked  map[jsonrpc.ID]struct{} // requests that are not answered; one of an ID in use never is
	closed bool
}

func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for err != nil && len(c.asked) > 0 && !c.closed {
		c.changed.Wait()
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		c.asked[req.ID] = struct{}{}
	}
	return msg, err
}

func (c *drainingConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := c.Connection.Write(ctx, msg)
	if res, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.asked, res.ID)
		c.mu.Unlock()
		c.changed.Broadcast()
	}
	return err
}

func (c *drainingConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.changed.Broadcast()
	return c.Connection.Close()
}
