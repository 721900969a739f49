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

// viewersOptions says how many watch one thread, and what happens on it.
type viewersOptions struct {
	viewers int
	events  int           // one by one
	delay   time.Duration // between them
	bursts  int           // of 16 events
	gap     time.Duration // between them

	transports []string // over which they watch, one after the other
}

func defaultViewers() *viewersOptions {
	return &viewersOptions{
		viewers: 1000, events: 200, delay: 25 * time.Millisecond, bursts: 40, gap: 100 * time.Millisecond,
		transports: []string{"sse"},
	}
}

func viewersCommand(o *options) *cobra.Command {
	vo := defaultViewers()
	cmd := o.command("viewers", "Let many watch one thread, and compare with a bare loop of socket writes", served(vo.bench))
	cmd.Flags().IntVar(&vo.viewers, "viewers", vo.viewers, "viewers of the thread")
	cmd.Flags().IntVar(&vo.events, "events", vo.events, "events that come one by one")
	cmd.Flags().DurationVar(&vo.delay, "delay", vo.delay, "pause between two of them")
	cmd.Flags().IntVar(&vo.bursts, "bursts", vo.bursts, "bursts of 16 events")
	cmd.Flags().DurationVar(&vo.gap, "gap", vo.gap, "pause between two of them")
	cmd.Flags().StringSliceVar(&vo.transports, "transport", vo.transports, "how they watch: sse, ws, or both as sse,ws")
	return cmd
}

// burst is how many events a burst has: with ten tokens, a message's start and end and the four events of
// the tool call that makes the pause.
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

// over is the bench of viewers that watch over one transport.
func (o *viewersOptions) over(ctx context.Context, t *target, transport string) ([]report, error) {
	single := fmt.Sprintf(`{"do": [{"tokens": %d, "delayMs": %d}]}`, o.events, o.delay.Milliseconds())
	name := fmt.Sprintf("%d viewers over %s, ", o.viewers, transport)
	one, err := o.watched(ctx, t, transport, name+fmt.Sprintf("events one by one each %v", o.delay), single, 1, o.delay)
	if err != nil {
		return nil, err
	}
	cycle := fmt.Sprintf(`{"tokens": %d}, {"tool": "sleep", "args": {"ms": %d}}`, burst-6, o.gap.Milliseconds())
	many := `{"do": [` + strings.TrimSuffix(strings.Repeat(cycle+", ", o.bursts), ", ") + `]}`
	bursts, err := o.watched(ctx, t, transport, name+fmt.Sprintf("bursts of %d events each %v", burst, o.gap), many, burst, o.gap)
	return []report{one, bursts}, err
}

// watched plays a script before viewers that were there first. The bare loop it is compared with writes the
// same frames, group at a time with the same pauses.
func (o *viewersOptions) watched(ctx context.Context, t *target, transport, name, script string, group int, gap time.Duration) (report, error) {
	c, err := dial(t.addr)
	if err != nil {
		return report{}, err
	}
	defer func() { _ = c.Close() }()
	a, err := openAudience(ctx, t, c, o.viewers, transport)
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
	r.times("terminal event, after the first viewer had it", fromLeast(spread))
	if t.pid == 0 {
		return r, nil
	}
	bare, err := bareLoop(ctx, a.frames, o.viewers, group, gap)
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

// audience is many viewers of one thread.
type audience struct {
	thread   string
	from     int64 // the last event before they came
	conns    []*conn
	frames   [][]byte // what the first of them got
	finished []time.Time
}

// openAudience makes a thread and lets n viewers follow it over a transport, sse or ws.
func openAudience(ctx context.Context, t *target, c *conn, n int, transport string) (*audience, error) {
	a := &audience{thread: newThread(), finished: make([]time.Time, n)}
	if err := a.begin(c, t); err != nil {
		return nil, err
	}
	for range n {
		v, err := dial(t.addr)
		if err == nil {
			a.conns = append(a.conns, v)
			err = v.follow(a, transport)
		}
		if err != nil {
			a.close()
			return nil, fmt.Errorf("viewer %d: %w", len(a.conns), err)
		}
	}
	return a, pause(ctx, 300*time.Millisecond) // what opening has left to do is not measured
}

// follow has the viewer watch what comes on a's thread.
func (c *conn) follow(a *audience, transport string) error {
	const query = "?follow=true&after_event_id=latest" // which is a.from
	if transport == "ws" {
		return c.upgrade(socketOf(a.thread) + query)
	}
	if err := c.stream(events(a.thread) + query); err != nil {
		return err
	}
	_, err := c.frame() // the one block without data: the viewer is there
	return err
}

// begin gives the thread a first run and reads how long its log is then.
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
					a.frames = append(a.frames, []byte(string(f.raw)))
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

// reads is how often the viewers have read so far, which is how often the server has written to them unless
// they are late.
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
