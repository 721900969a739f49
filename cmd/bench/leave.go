package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// leaveOptions says how many viewers come, watch and leave.
type leaveOptions struct {
	viewers int
	events  int
	delay   time.Duration // between two events
	after   time.Duration // how long after they left memory is read

	transports []string // over which they watch, one after the other
}

func defaultLeave() *leaveOptions {
	return &leaveOptions{viewers: 10000, events: 100, delay: 50 * time.Millisecond, after: time.Minute, transports: []string{"sse", "ws"}}
}

func leaveCommand(o *options) *cobra.Command {
	lo := defaultLeave()
	cmd := o.command("leave", "Let many watch one thread and leave: what memory the server gives back", served(lo.bench))
	cmd.Flags().IntVar(&lo.viewers, "viewers", lo.viewers, "viewers of the thread")
	cmd.Flags().IntVar(&lo.events, "events", lo.events, "events that they see")
	cmd.Flags().DurationVar(&lo.delay, "delay", lo.delay, "pause between two of them")
	cmd.Flags().DurationVar(&lo.after, "after", lo.after, "pause before memory is read again")
	cmd.Flags().StringSliceVar(&lo.transports, "transport", lo.transports, "how they watch: sse, ws, or both as sse,ws")
	return cmd
}

func (o *leaveOptions) bench(ctx context.Context, t *target) (all []report, err error) {
	for _, transport := range o.transports {
		r, err := o.over(ctx, t, transport)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// over is the bench of viewers that watch over one transport.
func (o *leaveOptions) over(ctx context.Context, t *target, transport string) (report, error) {
	r := report{name: fmt.Sprintf("%d viewers over %s leave", o.viewers, transport)}
	r.add("events that each has seen", "", float64(o.events))
	memory := func(when string) {
		if t.pid != 0 {
			r.add("server memory "+when, "MiB", float64(rss(t.pid))/(1<<20))
		}
	}
	memory("before they came")
	if err := o.visit(ctx, t, transport, func() { memory("while they are there") }); err != nil {
		return report{}, err
	}
	err := pause(ctx, o.after)
	memory(fmt.Sprintf("%v after they left", o.after))
	return r, err
}

// visit has the viewers come, see a run, and leave.
func (o *leaveOptions) visit(ctx context.Context, t *target, transport string, seen func()) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	a, err := openAudience(ctx, t, c, o.viewers, transport)
	if err != nil {
		return err
	}
	defer a.close()
	script := fmt.Sprintf(`{"do": [{"tokens": %d, "delayMs": %d}]}`, o.events, o.delay.Milliseconds())
	if _, err := start(c, a.thread, script); err != nil {
		return err
	}
	if err := a.watch(); err != nil {
		return err
	}
	seen()
	return nil
}
