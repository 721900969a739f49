package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// idleOptions are the options of bench idle.
type idleOptions struct {
	streams int
	settle  time.Duration // before memory is read
}

func defaultIdle() *idleOptions { return &idleOptions{streams: 1000, settle: 3 * time.Second} }

func idleCommand(o *options) *cobra.Command {
	io := defaultIdle()
	cmd := o.command("idle", "Open idle streams, then disconnect: memory per stream, and how soon the server notices", served(io.bench))
	cmd.Flags().IntVar(&io.streams, "streams", io.streams, "idle streams")
	cmd.Flags().DurationVar(&io.settle, "settle", io.settle, "pause before memory is read")
	return cmd
}

func (o *idleOptions) bench(ctx context.Context, t *target) ([]report, error) {
	c, err := dial(t.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := o.warm(ctx, t, c); err != nil {
		return nil, err
	}
	memory, open := rss(t.pid), files(t.pid)
	began := time.Now()
	a, err := openAudience(ctx, group{t}, c, o.streams, "sse")
	if err != nil {
		return nil, err
	}
	opened := time.Since(began)
	r := report{name: fmt.Sprintf("%d idle streams", o.streams)}
	r.add("time to open one", "µs", micros(opened)/float64(o.streams))
	if t.pid == 0 {
		a.close()
		return []report{r}, nil
	}
	if err := pause(ctx, o.settle); err != nil {
		a.close()
		return nil, err
	}
	r.add("server memory of a stream", "KiB", float64(rss(t.pid)-memory)/float64(o.streams)/1024)
	idle := t.cpu()
	if err := pause(ctx, time.Second); err != nil {
		a.close()
		return nil, err
	}
	r.add("server CPU while they idle", "% of a core", 100*(t.cpu()-idle).Seconds())
	left := time.Now()
	a.close()
	half, all, err := t.noticed(ctx, left, open, o.streams)
	if err != nil {
		return nil, err
	}
	r.add("server noticed half of the disconnects after", "ms", millis(half))
	r.add("server noticed all disconnects after", "ms", millis(all))
	return []report{r}, nil
}

// warm opens and closes a few streams, so that one-time allocations of the server are not counted.
func (o *idleOptions) warm(ctx context.Context, t *target, c *conn) error {
	open := files(t.pid)
	a, err := openAudience(ctx, group{t}, c, min(o.streams, 50), "sse")
	if err != nil {
		return err
	}
	n := len(a.conns)
	left := time.Now()
	a.close()
	_, _, err = t.noticed(ctx, left, open, n)
	return err
}

// noticed waits until the server has closed half, and then nearly all, of n connections whose clients have disconnected at left. It
// counts the server's open descriptors; open is their number before.
func (t *target) noticed(ctx context.Context, left time.Time, open, n int) (half, all time.Duration, err error) {
	deadline := left.Add(time.Minute)
	for {
		now := files(t.pid)
		if half == 0 && now <= open+n/2 {
			half = time.Since(left)
		}
		if now <= open+8 { // database connections may have been opened meanwhile
			return half, time.Since(left), nil
		}
		if time.Now().After(deadline) {
			return half, 0, fmt.Errorf("a minute after %d clients left, the server holds %d descriptors more than before", n, now-open)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return half, 0, err
		}
	}
}
