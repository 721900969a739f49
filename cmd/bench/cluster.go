package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// clusterOptions are the options of bench cluster: several servers on one PostgreSQL database.
type clusterOptions struct {
	nats    string // URL; empty: without NATS
	rounds  int    // of all measurements, one after the other
	total   int    // runs of a round, at each server or at all
	atOnce  int    // likewise
	events  int    // that one viewer at another server waits for
	viewers int    // at one server
}

func clusterCommand(all *options) *cobra.Command {
	o := &clusterOptions{rounds: 3, total: 600, atOnce: 48, events: 100, viewers: 100}
	cmd := &cobra.Command{
		Use: "cluster", Short: "Servers that share a PostgreSQL database, compared with one server", Args: cobra.NoArgs,
		Long: "Cluster starts one, two and three servers in turn on the PostgreSQL database given with --database,\n" +
			"and measures durable runs, as many at each server or in all, and viewers at the server that executes a run\n" +
			"and at another one.\n" +
			"Servers, database and client share this machine: compare figures of one invocation only.",
		RunE: all.measure(o.bench),
	}
	cmd.Flags().StringVar(&o.nats, "nats", o.nats, "`URL` of a NATS server, to measure viewers with it, too")
	cmd.Flags().IntVar(&o.rounds, "rounds", o.rounds, "rounds of all measurements")
	cmd.Flags().IntVar(&o.total, "total", o.total, "runs of a round")
	cmd.Flags().IntVar(&o.atOnce, "runs", o.atOnce, "runs at once")
	cmd.Flags().IntVar(&o.events, "events", o.events, "events of a run with viewers")
	cmd.Flags().IntVar(&o.viewers, "viewers", o.viewers, "viewers of a run")
	return cmd
}

// group is some servers on one database.
type group []*target

func (g group) cpu() (sum time.Duration) {
	for _, t := range g {
		sum += t.cpu()
	}
	return sum
}

// counter returns the sum of a counter in the metrics of all servers.
func (g group) counter(name string) (sum float64, err error) {
	for _, t := range g {
		c, err := dial(t.addr)
		if err != nil {
			return 0, err
		}
		err = c.send("GET", "/metrics", "", nil)
		var text []byte
		if err == nil {
			text, err = c.answer(200)
		}
		for line := range bytes.Lines(text) {
			if value, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
				var n float64
				_, err = fmt.Sscan(string(value), &n)
				sum += n
			}
		}
		if err = errors.Join(err, c.Close()); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// within measures n servers with settings, which it starts and stops.
func (all *options) within(ctx context.Context, n int, settings string, measure func(group) error) (err error) {
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "baton.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return err
	}
	var g group
	for range n {
		t, stop, err := startServer(ctx, nil, "--config", file, "--database", all.database)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		g = append(g, t)
	}
	if err := pause(ctx, 4*time.Second); err != nil { // until they know each other
		return err
	}
	return measure(g)
}

func (o *clusterOptions) bench(ctx context.Context, all *options) ([]report, error) {
	if !strings.HasPrefix(all.database, "postgres") || o.rounds < 1 {
		return nil, errors.New("cluster: want --database postgres://…, and at least one round")
	}
	const limits = "limits: {requests_per_user: 0, requests_per_project: 0}\n"
	sizes := []struct {
		name    string
		servers int
		each    bool // as many runs at each server
	}{
		{"one server", 1, true},
		{"two servers", 2, true},
		{"three servers", 3, true},
		{"two servers in all", 2, false},
		{"three servers in all", 3, false},
	}
	db, err := openDatabase(ctx, all.database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	buses := []struct{ name, settings string }{{"PostgreSQL", limits}}
	if o.nats != "" {
		buses = append(buses, struct{ name, settings string }{"NATS", limits + "nats: '" + o.nats + "'\n"})
	}
	played, watched := make([]played, len(sizes)), make([]watchedFrom, len(buses))
	for range o.rounds {
		for i, s := range sizes {
			if err := all.within(ctx, s.servers, limits, func(g group) error { return o.play(ctx, db, g, s.each, &played[i]) }); err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
		}
		for i, b := range buses {
			if err := all.within(ctx, 3, b.settings, func(g group) error { return o.watch(ctx, g, &watched[i]) }); err != nil {
				return nil, fmt.Errorf("hints over %s: %w", b.name, err)
			}
		}
	}
	var reports []report
	for i, s := range sizes {
		reports = append(reports, o.reportPlayed(s.name, &played[i], &played[0]))
	}
	for i, b := range buses {
		reports = append(reports, o.reportWatched("Three servers, hints over "+b.name, &watched[i]))
	}
	return reports, nil
}

// played has the sums of all rounds of runs, each with a viewer.
type played struct {
	runs, events, commits, transactions float64
	took, used, database                time.Duration
	waits                               waits
}

// play makes runs at all servers.
func (o *clusterOptions) play(ctx context.Context, db *database, g group, each bool, sum *played) error {
	share := runsOptions{total: o.total, atOnce: o.atOnce, tokens: 20, size: 4, viewers: 1, projection: "agui"}
	if !each {
		share.total, share.atOnce = o.total/len(g), o.atOnce/len(g)
	}
	once := func(total int) (samples []sample, err error) {
		share := share
		share.total = total
		lists := make([][]sample, len(g))
		var servers errgroup.Group
		for i, t := range g {
			servers.Go(func() (err error) { lists[i], err = share.play(ctx, t); return err })
		}
		err = servers.Wait()
		for _, l := range lists {
			samples = append(samples, l...)
		}
		return samples, err
	}
	if _, err := once(share.atOnce); err != nil { // warms them up
		return err
	}
	commits, err := g.counter(commitCount)
	if err != nil {
		return err
	}
	transactions, err := db.transactions(ctx)
	if err != nil {
		return err
	}
	before, database, began := g.cpu(), db.cpu(), time.Now()
	var looking errgroup.Group
	over, end := context.WithCancel(ctx)
	looking.Go(func() error {
		w, err := db.countWaits(over)
		sum.waits.found, sum.waits.looks, sum.transactions = sum.waits.found+w.found, sum.waits.looks+w.looks, sum.transactions-w.looks // its own
		return err
	})
	samples, err := once(share.total)
	end()
	if err = errors.Join(err, looking.Wait()); err != nil {
		return err
	}
	sum.took, sum.used, sum.runs = sum.took+time.Since(began), sum.used+g.cpu()-before, sum.runs+float64(len(samples))
	sum.database += db.cpu() - database
	for i := range samples {
		sum.events += float64(samples[i].viewers[0].last)
	}
	after, err := g.counter(commitCount)
	if err != nil {
		return err
	}
	sum.commits += after - commits
	if err := pause(ctx, 2*time.Second); err != nil { // until the sessions have reported their transactions
		return err
	}
	after, err = db.transactions(ctx)
	sum.transactions += after - transactions
	return err
}

const (
	commitCount   = "baton_commit_duration_seconds_count"
	datagramCount = "baton_hint_datagrams_total"
)

func (o *clusterOptions) reportPlayed(name string, p, alone *played) report {
	r := report{name: fmt.Sprintf("%d runs of 20 tokens, %d at once, %s, %d rounds", o.total, o.atOnce, name, o.rounds)}
	s, cores := p.took.Seconds(), float64(runtime.NumCPU())
	r.add("durable runs, and per core of the machine", "/s", p.runs/s, p.runs/s/cores)
	r.add("stored and delivered events, and per core of the machine", "/s", p.events/s, p.events/s/cores)
	r.add("durable runs per second of the servers' CPU", "/s", p.runs/p.used.Seconds())
	r.add("durable runs per second of CPU, with PostgreSQL's on this machine", "/s", p.runs/(p.used+p.database).Seconds())
	r.add("transactions per run, with those of a pause", "", p.transactions/p.runs)
	r.add("time in which a session waits for a lock of another", "%", 100*p.waits.found/p.waits.looks)
	r.add("stored and delivered events per second of the servers' CPU", "/s", p.events/p.used.Seconds())
	r.add("commits", "/s", p.commits/s)
	r.add("CPU per run, of the servers and PostgreSQL", "µs", micros(p.used)/p.runs, micros(p.database)/p.runs)
	if p != alone {
		r.add("commits, against one server", "×", p.commits/s/(alone.commits/alone.took.Seconds()))
		r.add("runs per second, against one server", "×", p.runs/s/(alone.runs/alone.took.Seconds()))
		r.add("CPU per run, against one server", "×", (p.used+p.database).Seconds()/p.runs/((alone.used+alone.database).Seconds()/alone.runs))
	}
	return r
}

// watched has what many viewers of a run cost.
type watched struct {
	used          time.Duration // CPU of all servers
	delivered     float64
	commits, sent float64 // by the server of the run
}

// watchedFrom has the measurements of viewers at the server that executes a run and at another server.
type watchedFrom struct {
	behind    []time.Duration // events there, after they were here
	audiences [3]watched      // at the server of the run, at another, at all servers in turn
}

// watch watches runs of the first server from there, from the second, and from all.
func (o *clusterOptions) watch(ctx context.Context, g group, sum *watchedFrom) error {
	c, err := dial(g[0].addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	script := fmt.Sprintf(`{"do": [{"tokens": %d, "delayMs": 20}]}`, o.events)
	show := func(audiences ...*audience) error {
		if _, err := start(c, audiences[0].thread, script); err != nil {
			return err
		}
		var watching errgroup.Group
		for _, a := range audiences {
			watching.Go(a.watch)
		}
		return watching.Wait()
	}

	here, err := openAudience(ctx, g[:1], c, 1, "sse")
	if err != nil {
		return err
	}
	defer here.close()
	there := &audience{thread: here.thread, from: here.from, finished: make([]time.Time, 1)}
	if err := there.connect(g[1:2], "sse"); err != nil {
		return err
	}
	defer there.close()
	if err := errors.Join(pause(ctx, 2*time.Second), show(here, there)); err != nil {
		return err
	}
	for i, at := range here.arrived {
		sum.behind = append(sum.behind, there.arrived[i].Sub(at))
	}

	for i, at := range []group{g[:1], g[1:2], g} {
		many, err := openAudience(ctx, at, c, o.viewers, "sse")
		if err != nil {
			return err
		}
		counts := make(map[string]float64)
		count := func(sign float64) (err error) {
			for _, name := range []string{commitCount, datagramCount} {
				var n float64
				if n, err = g[:1].counter(name); err != nil {
					return err
				}
				counts[name] += sign * n
			}
			return nil
		}
		err = errors.Join(pause(ctx, 2*time.Second), count(-1))
		before := g.cpu()
		if err == nil {
			err = show(many)
		}
		sum := &sum.audiences[i]
		sum.used += g.cpu() - before
		many.close()
		if err = errors.Join(err, count(1)); err != nil {
			return err
		}
		sum.commits, sum.sent = sum.commits+counts[commitCount], sum.sent+counts[datagramCount]
		sum.delivered += float64(o.viewers * len(many.frames))
	}
	return nil
}

func (o *clusterOptions) reportWatched(name string, w *watchedFrom) report {
	r := report{name: name}
	r.times("events at another server, after they were at the run's", w.behind)
	viewers := fmt.Sprintf("servers' CPU per delivery to %d viewers ", o.viewers)
	perDelivery := func(a *watched) float64 { return micros(a.used) / a.delivered }
	here := &w.audiences[0]
	for i, at := range []string{"at the run's server", "at another server", "at all servers"} {
		a := &w.audiences[i]
		r.add(viewers+at, "µs", perDelivery(a))
		if i > 0 {
			r.add(at+" against the run's", "×", perDelivery(a)/perDelivery(here))
			r.add("datagrams per commit of the run's server, viewers "+at, "", a.sent/a.commits)
		}
	}
	return r
}
