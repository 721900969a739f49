package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
)

// runsOptions are the options of bench runs.
type runsOptions struct {
	atOnce     int
	total      int
	tokens     int
	size       int
	delay      time.Duration // between two tokens
	viewers    int           // of each run
	projection string        // of the first viewer: agui is the POST's own answer, seed a GET like the others
}

func defaultRuns() *runsOptions {
	return &runsOptions{atOnce: 50, total: 200, tokens: 200, size: 4, viewers: 1, projection: "agui"}
}

func (o *runsOptions) flags(fs *pflag.FlagSet) {
	fs.IntVar(&o.atOnce, "runs", o.atOnce, "runs at once")
	fs.IntVar(&o.total, "total", o.total, "total runs")
	fs.IntVar(&o.tokens, "tokens", o.tokens, "tokens of a run")
	fs.IntVar(&o.size, "size", o.size, "characters of a token")
	fs.DurationVar(&o.delay, "delay", o.delay, "pause between two tokens")
	fs.IntVar(&o.viewers, "viewers", o.viewers, "viewers of each run")
	fs.StringVar(&o.projection, "projection", o.projection, "agui: the first viewer reads the POST's answer; seed: the thread's events")
}

func runsCommand(o *options) *cobra.Command {
	ro := defaultRuns()
	cmd := o.command("runs", "Start runs and read them", served(ro.bench))
	ro.flags(cmd.Flags())
	return cmd
}

// seen is one viewer's record of a run.
type seen struct {
	first    time.Time // arrival of the first token
	finished time.Time // arrival of the terminal event
	last     int64     // id of the last event; all ids before it came in order
	bytes    int64
}

// sample is one run with its viewers.
type sample struct {
	posted  time.Time
	viewers []seen
}

// bench measures runs of the scripted agent.
func (o *runsOptions) bench(ctx context.Context, t *target) ([]report, error) {
	if o.atOnce < 1 || o.total < 1 || o.tokens < 1 || o.viewers < 1 || o.projection != "agui" && o.projection != "seed" {
		return nil, errors.New("runs: want at least one run, one token and one viewer, and projection agui or seed")
	}
	warm := *o
	warm.total = min(o.atOnce, 10)
	if _, err := warm.play(ctx, t); err != nil {
		return nil, err
	}
	before, own, began, disk := t.cpu(), ownCPU(), time.Now(), written(t.pid)
	samples, err := o.play(ctx, t)
	if err != nil {
		return nil, err
	}
	took, used, own := time.Since(began), t.cpu()-before, ownCPU()-own

	r := report{name: fmt.Sprintf("%d runs of %d tokens, %d at once", o.total, o.tokens, o.atOnce)}
	if o.delay > 0 {
		r.name += fmt.Sprintf(", %v per token", o.delay)
	}
	if o.viewers > 1 {
		r.name += fmt.Sprintf(", %d viewers each", o.viewers)
	}
	var first, finished []time.Duration
	var stored, delivered, bytes int64
	for i := range samples {
		s := &samples[i]
		stored += s.viewers[0].last
		bytes += s.viewers[0].bytes
		for _, v := range s.viewers {
			delivered += v.last
			first = append(first, v.first.Sub(s.posted))
			finished = append(finished, v.finished.Sub(s.posted))
		}
	}
	r.times("POST to first token", first)
	r.times("POST to RUN_FINISHED", finished)
	r.add("stored events", "/s", float64(stored)/took.Seconds())
	r.add("deliveries", "/s", float64(delivered)/took.Seconds())
	r.add("runs", "/s", float64(o.total)/took.Seconds())
	r.add("bytes of a run to a viewer", "B", float64(bytes)/float64(o.total))
	if t.pid != 0 {
		r.add("server CPU per stored event", "µs", micros(used)/float64(stored))
		if disk = written(t.pid) - disk; disk > 0 {
			r.add("server's writes to disk per stored event", "kB", float64(disk)/float64(stored)/1000)
		}
		r.add("server CPU per run", "µs", micros(used)/float64(o.total))
		r.add("server CPU per delivery", "µs", micros(used)/float64(delivered))
		r.add("server CPU", "% of a core", 100*used.Seconds()/took.Seconds())
		r.add("server memory", "MiB", float64(rss(t.pid))/(1<<20))
	}
	r.add("client CPU per delivery", "µs", micros(own)/float64(delivered))
	return []report{r}, nil
}

// play makes o.total runs, o.atOnce at a time. If that is all of them, it connects all viewers before the first run starts, so that
// the times do not include connecting.
func (o *runsOptions) play(ctx context.Context, t *target) ([]sample, error) {
	samples := make([]sample, o.total)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.atOnce)
	opened := make([]*connections, o.total)
	if o.total <= o.atOnce {
		for i := range opened {
			var err error
			if opened[i], err = o.connect(ctx, t); err != nil {
				return nil, err
			}
			defer opened[i].close()
		}
	}
	for i := range samples {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			var err error
			if samples[i], err = o.run(ctx, t, opened[i]); err != nil {
				err = fmt.Errorf("run %d: %w", i+1, err)
			}
			return err
		})
	}
	return samples, group.Wait()
}

// connections are the connections of one run.
type connections struct {
	viewers []*conn
	post    *conn // starts the run; one of viewers, unless they all read the thread's events
	close   func()
}

// connect opens a run's connections. They also close when ctx ends.
func (o *runsOptions) connect(ctx context.Context, t *target) (*connections, error) {
	n := o.viewers
	if o.projection == "seed" {
		n++
	}
	all := make([]*conn, 0, n)
	hang := func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
	for range n {
		c, err := dial(t.addr)
		if err != nil {
			hang()
			return nil, err
		}
		all = append(all, c)
	}
	stop := context.AfterFunc(ctx, hang)
	return &connections{viewers: all[:o.viewers], post: all[n-1], close: func() { stop(); hang() }}, nil
}

// run makes one run and reads it with all its viewers, over cs or new connections.
func (o *runsOptions) run(ctx context.Context, t *target, cs *connections) (sample, error) {
	script := fmt.Sprintf(`{"do": [{"tokens": %d, "size": %d, "delayMs": %d}]}`, o.tokens, o.size, o.delay.Milliseconds())
	thread := newThread()
	if cs == nil {
		var err error
		if cs, err = o.connect(ctx, t); err != nil {
			return sample{}, err
		}
		defer cs.close()
	}
	post := cs.post

	s := sample{posted: time.Now(), viewers: make([]seen, o.viewers)}
	if o.projection == "seed" {
		if _, err := start(post, thread, script); err != nil {
			return s, err
		}
	} else {
		if err := post.send("POST", "/api/v1/agent/runs", acceptStream, body(thread, script)); err != nil {
			return s, err
		}
		if err := post.streaming(); err != nil {
			return s, err
		}
	}
	var group errgroup.Group
	for i, c := range cs.viewers {
		group.Go(func() (err error) {
			if c != post {
				if err := c.stream(events(thread)); err != nil {
					return err
				}
			}
			s.viewers[i], err = c.watch()
			return err
		})
	}
	err := group.Wait()
	for _, v := range s.viewers {
		if err == nil && v.last != s.viewers[0].last {
			err = fmt.Errorf("one viewer got %d events, another %d", s.viewers[0].last, v.last)
		}
	}
	return s, err
}

// watch reads a thread's first run to its end. It fails unless the ids are 1, 2, 3, … up to the terminal event.
func (c *conn) watch() (seen, error) {
	var v seen
	for {
		f, err := c.frame()
		if errors.Is(err, io.EOF) && !v.finished.IsZero() {
			v.bytes = c.wire
			return v, nil
		}
		if err != nil {
			return v, fmt.Errorf("after event %d: %w", v.last, cut(err))
		}
		if f.id == 0 {
			continue
		}
		if f.id != v.last+1 {
			return v, fmt.Errorf("event %d follows %d", f.id, v.last)
		}
		v.last = f.id
		switch f.kind {
		case textContent:
			if v.first.IsZero() {
				v.first = time.Now()
			}
		case runFinished:
			v.finished = time.Now()
		case runError:
			return v, fmt.Errorf("the run has failed: %s", f.raw)
		}
	}
}
