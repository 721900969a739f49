package mcp

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/runtime"
)

// maxLine is how many bytes a message may have that comes in over a stream.
const maxLine = 32 << 20

// Serve serves who over a pair of streams, a line for each message, and closes them. It returns nil when in ends,
// once what was asked before is answered, and ctx's error when ctx ends.
func (t Transport) Serve(ctx context.Context, who runtime.Caller, in io.ReadCloser, out io.WriteCloser) error {
	ctx = context.WithValue(ctx, callerKey{}, who)
	return t.server().Run(ctx, patient{&sdk.IOTransport{Reader: in, Writer: out, MaxLineLength: maxLine}})
}

// patient is a transport whose connection ends only when all that was asked is answered: the server would break
// off what is under way.
type patient struct{ sdk.Transport }

func (p patient) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.Transport.Connect(ctx)
	pc := &patientConn{Connection: c, asked: make(map[jsonrpc.ID]struct{})}
	pc.changed.L = &pc.mu
	return pc, err
}

type patientConn struct {
	sdk.Connection
	changed sync.Cond // of the fields below

	mu     sync.Mutex              // guards the fields below
	asked  map[jsonrpc.ID]struct{} // requests that are not answered; one of an ID in use never is
	closed bool
}

func (c *patientConn) Read(ctx context.Context) (jsonrpc.Message, error) {
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

func (c *patientConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	err := c.Connection.Write(ctx, msg)
	if res, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.asked, res.ID)
		c.mu.Unlock()
		c.changed.Broadcast()
	}
	return err
}

func (c *patientConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.changed.Broadcast()
	return c.Connection.Close()
}
