package cloud

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// call is an operation on a blob. It makes one or more requests, and each has its own timeout.
type call struct {
	timeout  time.Duration
	end      context.CancelFunc
	timedOut atomic.Bool
}

// begin returns an operation and its context, which ends when end is called or a request times out.
func (b *Bucket) begin(ctx context.Context) (*call, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &call{timeout: b.timeout, end: cancel}, ctx
}

// do runs one request, which uses the operation's context.
func (c *call) do(request func() error) error {
	t := time.AfterFunc(c.timeout, func() {
		c.timedOut.Store(true)
		c.end()
	})
	defer t.Stop()
	err := request()
	if err != nil && c.timedOut.Load() {
		return fmt.Errorf("the storage service does not respond: %w: %w", os.ErrDeadlineExceeded, err)
	}
	return err
}
