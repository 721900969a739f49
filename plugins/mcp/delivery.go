package mcp

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// delivery tells whether a call has left us: only one that has not may be made again. The errors of the SDK do not tell,
// as a connection that ends gives the calls that were under way the error of the one that found it ended.
type delivery struct {
	sent atomic.Bool
}

type deliveryKey struct{}

// withDelivery returns a context for a call.
func withDelivery(ctx context.Context) (context.Context, *delivery) {
	d := new(delivery)
	return context.WithValue(ctx, deliveryKey{}, d), d
}

// mark says whether the call that ctx is for is on its way.
func mark(ctx context.Context, sent bool) {
	if d, ok := ctx.Value(deliveryKey{}).(*delivery); ok {
		d.sent.Store(sent)
	}
}

// pipe is the transport to a program.
type pipe struct{ sdk.IOTransport }

// Connect returns a connection that marks calls.
func (p *pipe) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return marking{c}, nil
}

type marking struct{ sdk.Connection }

func (c marking) Write(ctx context.Context, m jsonrpc.Message) error {
	mark(ctx, true)
	return c.Connection.Write(ctx, m)
}
