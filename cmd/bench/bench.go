// Command bench measures a running server over its real routes. Client and server usually share a machine, so the client is
// cheap: it uses bare TCP connections, and parses answers and server-sent events by hand in reused buffers. It also checks them: a
// bench fails if a viewer misses an event or gets one twice.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

// options are the options of all benches.
type options struct {
	server   string // URL; empty: start one
	pid      int    // of the server, 0 if unknown
	database string // of the server to start
	json     bool
}

func main() {
	child()
	if err := command().Execute(); err != nil {
		fail(err)
	}
}

// child runs the process that a bench has started, a server or a crowd, and exits. In the bench itself it returns.
func child() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "serve":
		cmd.Main(builtin.Plugins()...)
	case len(os.Args) == 2 && os.Args[1] == "press":
		exit(press(os.Stdin, os.Stdout))
	case len(os.Args) == 2 && os.Args[1] == "load":
		exit(load(os.Stdin, os.Stdout))
	}
}

// exit ends a process of a bench.
func exit(err error) {
	if err != nil {
		fail(err)
	}
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

// command returns the command bench.
func command() *cobra.Command {
	var o options
	def := defaultRuns()
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server",
		Long: "Bench measures the server given with --server, or one that it starts for each bench on a new SQLite\n" +
			"database or the one given with --database. It shows the server's CPU time and memory if it has started the\n" +
			"server, or if the server runs on this machine and --pid is given. Without a subcommand it is bench runs.",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&o.server, "server", "", "`URL` of the server to measure")
	root.PersistentFlags().IntVar(&o.pid, "pid", 0, "process `id` of that server, to measure its CPU and memory")
	root.PersistentFlags().StringVar(&o.database, "database", "", "database `URL` for the server to start")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "print a line of JSON for each bench")
	def.flags(root.Flags())
	root.MarkFlagsMutuallyExclusive("server", "database")
	root.RunE = o.measure(served(def.bench))
	root.AddCommand(
		runsCommand(&o),
		viewersCommand(&o),
		idleCommand(&o),
		cancelCommand(&o),
		crowdCommand(&o),
		besideCommand(&o),
		threadCommand(&o),
		parkedCommand(&o),
		clusterCommand(&o),
		o.command("models", "Runs with a language model, compared with a bare client of the model, on a separate server", models()...),
		o.command("all", "All benches, with the sizes of Baton's published figures", suite()...),
	)
	return root
}

// A bench measures the server in the options, or one that it starts on their database.
type bench func(ctx context.Context, o *options) ([]report, error)

// served returns a bench for a server with default settings.
func served(measure func(ctx context.Context, t *target) ([]report, error)) bench {
	return func(ctx context.Context, o *options) ([]report, error) {
		if o.server == "" {
			return o.serve(ctx, "", nil, measure)
		}
		t, err := newTarget(o.server, o.pid)
		if err != nil {
			return nil, err
		}
		return measure(ctx, t)
	}
}

func (o *options) command(use, short string, list ...bench) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: o.measure(list...)}
}

// measure runs benches and prints their reports.
func (o *options) measure(list ...bench) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		for _, b := range list {
			reports, err := b(ctx, o)
			if err != nil {
				return err
			}
			for _, r := range reports {
				if err := r.write(cmd.OutOrStdout(), o.json); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// suite returns the benches of `make bench`.
func suite() []bench {
	runs := func(o runsOptions) bench {
		o.tokens, o.size = 200, 4
		return served(o.bench)
	}
	crowded := func(atOnce int) bench {
		o := runsOptions{total: atOnce, atOnce: atOnce, tokens: 100, size: 4, delay: 20 * time.Millisecond, viewers: 1, projection: "agui"}
		return served(o.bench)
	}
	return append([]bench{
		served(defaultIdle().bench),
		runs(runsOptions{total: 100, atOnce: 1, viewers: 1, projection: "agui"}),
		runs(runsOptions{total: 500, atOnce: 50, viewers: 1, projection: "agui"}),
		served((&runsOptions{total: 2000, atOnce: 32, tokens: 3, size: 4, viewers: 1, projection: "agui"}).bench), // short runs
		runs(runsOptions{total: 150, atOnce: 50, delay: 5 * time.Millisecond, viewers: 1, projection: "agui"}),
		runs(runsOptions{total: 200, atOnce: 50, viewers: 4, projection: "seed"}),
		runs(runsOptions{total: 1, atOnce: 1, delay: 20 * time.Millisecond, viewers: 1, projection: "agui"}), // a quiet server
		crowded(1000),
		crowded(5000),
		served(defaultViewers().bench),
		served(defaultCancels().bench),
		defaultCrowd().bench,
		defaultThread().bench,
	}, models()...)
}
