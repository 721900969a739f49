package cloud

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// watched is an operation whose service has so much time for each thing it is asked.
type watched struct {
	patience time.Duration
	end      context.CancelFunc
	over     atomic.Bool // it was silent
}

// watch returns an operation and its context, which ends with end, or when the service is silent.
func (b *Bucket) watch(ctx context.Context) (*watched, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &watched{patience: b.patience, end: cancel}, ctx
}

// during runs fn, which ends with the operation's context, and says so when that was because the service is silent.
func (w *watched) during(fn func() error) error {
	t := time.AfterFunc(w.patience, func() {
		w.over.Store(true)
		w.end()
	})
	defer t.Stop()
	return w.silent(fn())
}

// silent is err as it is to be told.
func (w *watched) silent(err error) error {
	if err == nil || !w.over.Load() {
		return err
	}
	return fmt.Errorf("the service is silent: %w: %w", os.ErrDeadlineExceeded, err)
}
