package mcp

import (
	"context"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// delivery records whether a call was sent: only an unsent call may be repeated. The SDK's errors do not show it, because
// when a connection ends, its running calls get the same error as the one that noticed the end.
type delivery struct {
	sent atomic.Bool
}

type deliveryKey struct{}

// withDelivery returns a context for a call.
func withDelivery(ctx context.Context) (context.Context, *delivery) {
	d := new(delivery)
	return context.WithValue(ctx, deliveryKey{}, d), d
}

// mark records whether the call of ctx was sent.
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
