package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// leaveOptions are the options of bench leave.
type leaveOptions struct {
	viewers int
	events  int
	delay   time.Duration // between two events
	after   time.Duration // from the viewers' disconnect to the second reading of memory

	transports []string // of the viewers, measured one after another
}

func defaultLeave() *leaveOptions {
	return &leaveOptions{viewers: 10000, events: 100, delay: 50 * time.Millisecond, after: time.Minute, transports: []string{"sse", "ws"}}
}

func leaveCommand(o *options) *cobra.Command {
	lo := defaultLeave()
	cmd := o.command("leave", "Let many viewers watch one thread and disconnect: memory that the server returns", served(lo.bench))
	cmd.Flags().IntVar(&lo.viewers, "viewers", lo.viewers, "viewers of the thread")
	cmd.Flags().IntVar(&lo.events, "events", lo.events, "events that they receive")
	cmd.Flags().DurationVar(&lo.delay, "delay", lo.delay, "pause between two events")
	cmd.Flags().DurationVar(&lo.after, "after", lo.after, "pause before memory is read again")
	cmd.Flags().StringSliceVar(&lo.transports, "transport", lo.transports, "transports of the viewers: sse, ws, or both as sse,ws")
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

// over measures viewers of one transport.
func (o *leaveOptions) over(ctx context.Context, t *target, transport string) (report, error) {
	r := report{name: fmt.Sprintf("%d viewers over %s disconnect", o.viewers, transport)}
	r.add("events per viewer", "", float64(o.events))
	memory := func(when string) {
		if t.pid != 0 {
			r.add("server memory "+when, "MiB", float64(rss(t.pid))/(1<<20))
		}
	}
	memory("before")
	if err := o.visit(ctx, t, transport, func() { memory("with viewers") }); err != nil {
		return report{}, err
	}
	err := pause(ctx, o.after)
	memory(fmt.Sprintf("%v after they disconnected", o.after))
	return r, err
}

// visit connects the viewers, waits until they have seen a run, and disconnects them.
func (o *leaveOptions) visit(ctx context.Context, t *target, transport string, seen func()) error {
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	a, err := openAudience(ctx, group{t}, c, o.viewers, transport)
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
