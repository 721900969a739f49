package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// viewersOptions are the options of bench viewers.
type viewersOptions struct {
	viewers int
	events  int           // single events
	delay   time.Duration // between single events
	bursts  int           // of 16 events
	gap     time.Duration // between bursts

	transports []string // of the viewers, measured one after another
}

func defaultViewers() *viewersOptions {
	return &viewersOptions{
		viewers: 1000, events: 200, delay: 25 * time.Millisecond, bursts: 40, gap: 100 * time.Millisecond,
		transports: []string{"sse"},
	}
}

func viewersCommand(o *options) *cobra.Command {
	vo := defaultViewers()
	cmd := o.command("viewers", "Let many viewers watch one thread, and compare with a bare loop of socket writes", served(vo.bench))
	cmd.Flags().IntVar(&vo.viewers, "viewers", vo.viewers, "viewers of the thread")
	cmd.Flags().IntVar(&vo.events, "events", vo.events, "single events")
	cmd.Flags().DurationVar(&vo.delay, "delay", vo.delay, "pause between single events")
	cmd.Flags().IntVar(&vo.bursts, "bursts", vo.bursts, "bursts of 16 events")
	cmd.Flags().DurationVar(&vo.gap, "gap", vo.gap, "pause between bursts")
	cmd.Flags().StringSliceVar(&vo.transports, "transport", vo.transports, "transports of the viewers: sse, ws, or both as sse,ws")
	return cmd
}

// burst is the number of events in a burst: ten tokens, the start and end of their message, and the four events of the tool call that
// makes the pause.
const burst = 16

func (o *viewersOptions) bench(ctx context.Context, t *target) (all []report, err error) {
	for _, transport := range o.transports {
		if transport != "sse" && transport != "ws" {
			return nil, fmt.Errorf("transport: want sse or ws, got %q", transport)
		}
		reports, err := o.over(ctx, t, transport)
		if err != nil {
			return nil, err
		}
		all = append(all, reports...)
	}
	return all, nil
}

// over measures viewers of one transport.
func (o *viewersOptions) over(ctx context.Context, t *target, transport string) ([]report, error) {
	single := fmt.Sprintf(`{"do": [{"tokens": %d, "delayMs": %d}]}`, o.events, o.delay.Milliseconds())
	name := fmt.Sprintf("%d viewers over %s, ", o.viewers, transport)
	one, err := o.watched(ctx, t, transport, name+fmt.Sprintf("an event each %v", o.delay), single, 1, o.delay)
	if err != nil {
		return nil, err
	}
	cycle := fmt.Sprintf(`{"tokens": %d}, {"tool": "sleep", "args": {"ms": %d}}`, burst-6, o.gap.Milliseconds())
	many := `{"do": [` + strings.TrimSuffix(strings.Repeat(cycle+", ", o.bursts), ", ") + `]}`
	bursts, err := o.watched(ctx, t, transport, name+fmt.Sprintf("bursts of %d events each %v", burst, o.gap), many, burst, o.gap)
	return []report{one, bursts}, err
}

// watched runs a script for viewers that are already connected, and compares it with a bare loop that writes the same frames, some
// at a time with the same pauses.
func (o *viewersOptions) watched(ctx context.Context, t *target, transport, name, script string, atOnce int, gap time.Duration) (report, error) {
	c, err := dial(t.addr)
	if err != nil {
		return report{}, err
	}
	defer func() { _ = c.Close() }()
	a, err := openAudience(ctx, group{t}, c, o.viewers, transport)
	if err != nil {
		return report{}, err
	}
	defer a.close()

	before, own, reads, began := t.cpu(), ownCPU(), a.reads(), time.Now()
	if _, err := start(c, a.thread, script); err != nil {
		return report{}, err
	}
	if err := a.watch(); err != nil {
		return report{}, err
	}
	took, used, own := time.Since(began), t.cpu()-before, ownCPU()-own
	reads = a.reads() - reads

	r := report{name: name}
	n := float64(o.viewers * len(a.frames))
	r.add("deliveries", "", n)
	r.add("deliveries per second", "/s", n/took.Seconds())
	r.add("deliveries per read of a viewer", "", n/float64(reads))
	var spread []time.Duration
	for _, f := range a.finished {
		spread = append(spread, f.Sub(a.finished[0]))
	}
	r.times("terminal event, after the first viewer got it", fromLeast(spread))
	if t.pid == 0 {
		return r, nil
	}
	bare, err := bareLoop(ctx, a.frames, o.viewers, atOnce, gap)
	if err != nil {
		return report{}, err
	}
	r.add("server CPU per delivery", "µs", micros(used)/n)
	r.add("bare loop's CPU per delivery", "µs", micros(bare)/n)
	r.add("server against bare loop", "×", used.Seconds()/bare.Seconds())
	r.add("client CPU per delivery", "µs", micros(own)/n)
	r.add("server memory", "MiB", float64(rss(t.pid))/(1<<20))
	return r, nil
}

// audience is the viewers of one thread.
type audience struct {
	thread   string
	from     int64 // the last event before they connected
	conns    []*conn
	frames   [][]byte    // the frames that the first viewer got
	arrived  []time.Time // when it got them
	finished []time.Time
}

// openAudience creates a thread and connects n viewers to servers in turn, over a transport, sse or ws.
func openAudience(ctx context.Context, g group, c *conn, n int, transport string) (*audience, error) {
	a := &audience{thread: newThread(), finished: make([]time.Time, n)}
	if err := a.begin(c, g[0]); err != nil {
		return nil, err
	}
	if err := a.connect(g, transport); err != nil {
		return nil, err
	}
	return a, pause(ctx, 300*time.Millisecond) // until opening has no more effect on the measurement
}

// connect connects the viewers to servers in turn.
func (a *audience) connect(g group, transport string) error {
	for i := range a.finished {
		v, err := dial(g[i%len(g)].addr)
		if err == nil {
			a.conns = append(a.conns, v)
			err = v.follow(a, transport)
		}
		if err != nil {
			a.close()
			return fmt.Errorf("viewer %d: %w", len(a.conns), err)
		}
	}
	return nil
}

// follow opens the stream of new events on a's thread.
func (c *conn) follow(a *audience, transport string) error {
	const query = "?follow=true&after_event_id=latest" // a.from is the latest event
	if transport == "ws" {
		return c.upgrade(socketOf(a.thread) + query)
	}
	if err := c.stream(events(a.thread) + query); err != nil {
		return err
	}
	_, err := c.frame() // the block without data: the stream is open
	return err
}

// begin makes the first run on the thread and reads the length of the log.
func (a *audience) begin(c *conn, t *target) error {
	if _, err := start(c, a.thread, "hello"); err != nil {
		return err
	}
	v, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = v.Close() }()
	if err := v.stream(events(a.thread)); err != nil {
		return err
	}
	s, err := v.watch()
	a.from = s.last
	return err
}

// watch reads the next run with all viewers. It fails unless each gets every event once and in order.
func (a *audience) watch() error {
	var group errgroup.Group
	last := make([]int64, len(a.conns))
	for i, c := range a.conns {
		group.Go(func() error {
			id := a.from
			for {
				f, err := c.frame()
				if err != nil {
					return fmt.Errorf("viewer %d, after event %d: %w", i+1, id, cut(err))
				}
				if f.id == 0 {
					continue
				}
				if f.id != id+1 {
					return fmt.Errorf("viewer %d: event %d follows %d", i+1, f.id, id)
				}
				id = f.id
				if i == 0 {
					a.frames, a.arrived = append(a.frames, []byte(string(f.raw))), append(a.arrived, time.Now())
				}
				switch f.kind {
				case runFinished:
					a.finished[i], last[i] = time.Now(), id
					return nil
				case runError:
					return fmt.Errorf("the run has failed: %s", f.raw)
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, id := range last {
		if id != last[0] {
			return errors.New("viewers got runs of different length")
		}
	}
	return nil
}

// reads returns the number of reads of all viewers so far. It equals the server's writes, unless viewers are late.
func (a *audience) reads() (n int) {
	for _, c := range a.conns {
		n += c.reads
	}
	return n
}

func (a *audience) close() {
	for _, c := range a.conns {
		_ = c.Close()
	}
}
