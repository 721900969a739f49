package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// parkedOptions are the options of bench parked.
type parkedOptions struct {
	runs int // that stay parked
	due  int // that wake beside them
}

// dueEach is the time between two runs that wake.
const dueEach = 10 * time.Millisecond

func defaultParked() *parkedOptions { return &parkedOptions{runs: 100_000, due: 1000} }

func parkedCommand(o *options) *cobra.Command {
	po := defaultParked()
	cmd := &cobra.Command{
		Use: "parked", Short: "Runs that wait for a time: memory, the start of a server, and how late they wake", Args: cobra.NoArgs,
		Long: "Parked starts a server on the database given with --database, and parks runs. It then starts a server anew beside\n" +
			"them, and measures how late further runs wake that become due one after the other.",
		RunE: o.measure(po.bench),
	}
	cmd.Flags().IntVar(&po.runs, "runs", po.runs, "runs that stay parked")
	cmd.Flags().IntVar(&po.due, "due", po.due, "runs that wake beside them")
	return cmd
}

func (o *parkedOptions) bench(ctx context.Context, all *options) (_ []report, err error) {
	if all.server != "" {
		return nil, errors.New("server: this bench starts a server twice itself")
	}
	dir, err := os.MkdirTemp("", "baton-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	database := cmp.Or(all.database, "sqlite:"+filepath.Join(dir, "baton.db"))
	r := report{name: fmt.Sprintf("%d parked runs, and %d that wake beside them, one in %v", o.runs, o.due, dueEach)}
	for _, measure := range []func(context.Context, *target, *report) error{o.park, o.wake} {
		began := time.Now()
		t, stop, err := startServer(ctx, nil, "--database", database)
		if err != nil {
			return nil, err
		}
		r.add("start of the server", "ms", millis(time.Since(began)))
		if err := errors.Join(measure(ctx, t, &r), stop()); err != nil {
			return nil, err
		}
	}
	return []report{r}, nil
}

// park parks the runs that stay so.
func (o *parkedOptions) park(ctx context.Context, t *target, r *report) error {
	before, began := rss(t.pid), time.Now()
	if _, err := o.starts(ctx, t, o.runs, func(int) time.Time { return began.Add(24 * time.Hour) }); err != nil {
		return err
	}
	r.add("parked", "/s", float64(o.runs)/time.Since(began).Seconds())
	if err := pause(ctx, 3*time.Second); err != nil { // for the garbage collector
		return err
	}
	r.add("server memory of a parked run", "KiB", float64(rss(t.pid)-before)/float64(o.runs)/1024)
	return nil
}

// wake starts the runs that wake, and measures how late they end.
func (o *parkedOptions) wake(ctx context.Context, t *target, r *report) error {
	r.add("server memory beside them", "MiB", float64(rss(t.pid))/(1<<20))
	first := time.Now().Add(10*time.Second + time.Duration(o.due)*time.Millisecond).Truncate(time.Millisecond)
	due := func(i int) time.Time { return first.Add(time.Duration(i) * dueEach) }
	runs, err := o.starts(ctx, t, o.due, due)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(due(o.due))); err != nil {
		return err
	}
	c, err := dial(t.addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	late := make([]time.Duration, len(runs))
	for i, run := range runs {
		ended, err := ended(ctx, c, run)
		if err != nil {
			return err
		}
		late[i] = ended.Sub(due(i))
	}
	r.times("from the due time to the end of the run", late)
	return nil
}

// starts starts runs that wait until a time each, and returns their ids.
func (o *parkedOptions) starts(ctx context.Context, t *target, n int, until func(i int) time.Time) ([]string, error) {
	const clients = 32
	runs := make([]string, n)
	work, _ := errgroup.WithContext(ctx)
	for k := range clients {
		work.Go(func() error {
			c, err := dial(t.addr)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			for i := k; i < n && ctx.Err() == nil; i += clients {
				at := until(i).UTC().Format(time.RFC3339Nano)
				if runs[i], err = start(c, newThread(), fmt.Sprintf(`{"do": [{"say": "begun"}, {"waitUntil": %q}, {"say": "woken"}]}`, at)); err != nil {
					return fmt.Errorf("run %d: %w", i, err)
				}
			}
			return ctx.Err()
		})
	}
	return runs, work.Wait()
}

// ended waits for the end of a run, and returns its time.
func ended(ctx context.Context, c *conn, id string) (time.Time, error) {
	for {
		if err := c.send("GET", "/api/projects/default/agent-runs/"+id, "", nil); err != nil {
			return time.Time{}, err
		}
		text, err := c.answer(200)
		if err != nil {
			return time.Time{}, err
		}
		var run struct {
			Status     string
			FinishedAt *time.Time
		}
		if err := json.Unmarshal(text, &run); err != nil {
			return time.Time{}, err
		}
		if run.FinishedAt != nil {
			if run.Status != "COMPLETED" {
				return time.Time{}, fmt.Errorf("run %s is %s", id, run.Status)
			}
			return *run.FinishedAt, nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return time.Time{}, err
		}
	}
}
