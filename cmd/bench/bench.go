// Command bench measures a running server over its real routes. Client and server usually share a machine, so
// the client is made to cost little: bare TCP connections, answers and server-sent events parsed by hand in
// buffers that are kept. It checks what it reads: a viewer that misses an event or gets one twice fails the
// bench.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/cmd"
	"github.com/batonrun/baton/plugins/builtin"
)

// options are what all benches share.
type options struct {
	server   string // URL; empty: start one
	pid      int    // of the server, 0 when unknown
	database string // of the server to start
	json     bool
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" { // the server that startServer starts
		cmd.Main(builtin.Plugins()...)
	}
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command returns the command bench.
func command() *cobra.Command {
	var o options
	def := defaultRuns()
	root := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server",
		Long: "Bench measures the server given with --server, or one that it starts for the purpose on a new SQLite\n" +
			"database or the one given with --database. The CPU and memory of the server are shown when it was\n" +
			"started by bench, or when it runs on this machine and --pid is given. Without a subcommand it is bench runs.",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&o.server, "server", "", "`URL` of the server to measure")
	root.PersistentFlags().IntVar(&o.pid, "pid", 0, "process `id` of that server, to measure its CPU and memory")
	root.PersistentFlags().StringVar(&o.database, "database", "", "database `URL` for the server to start")
	root.PersistentFlags().BoolVar(&o.json, "json", false, "print a line of JSON for each bench")
	def.flags(root.Flags())
	root.RunE = o.measure(def.bench)
	root.AddCommand(
		runsCommand(&o),
		viewersCommand(&o),
		idleCommand(&o),
		leaveCommand(&o),
		cancelCommand(&o),
		crowdCommand(&o),
		o.command("models", "Answers of a model of a provider, beside a bare client", models()...),
		o.command("all", "All benches, with the sizes that Baton's figures are given for", suite()...),
	)
	return root
}

// A bench measures the target.
type bench func(ctx context.Context, t *target) ([]report, error)

func (o *options) command(use, short string, list ...bench) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: o.measure(list...)}
}

// measure runs benches against the server that the options name, and prints what each has measured.
func (o *options) measure(list ...bench) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer cancel()
		t, stop, err := o.target(ctx)
		if err != nil {
			return err
		}
		for _, b := range list {
			var reports []report
			if reports, err = b(ctx, t); err != nil {
				break
			}
			for _, r := range reports {
				err = errors.Join(err, r.write(cmd.OutOrStdout(), o.json))
			}
		}
		return errors.Join(err, stop())
	}
}

// suite is what `make bench` measures.
func suite() []bench {
	runs := func(o runsOptions) bench {
		o.tokens, o.size = 200, 4
		return o.bench
	}
	return append([]bench{
		defaultIdle().bench, // first: later the server has memory to spare
		runs(runsOptions{total: 100, atOnce: 1, viewers: 1, projection: "agui"}),
		runs(runsOptions{total: 500, atOnce: 50, viewers: 1, projection: "agui"}),
		(&runsOptions{total: 2000, atOnce: 32, tokens: 3, size: 4, viewers: 1, projection: "agui"}).bench, // what runs cost that say little
		runs(runsOptions{total: 150, atOnce: 50, delay: 5 * time.Millisecond, viewers: 1, projection: "agui"}),
		runs(runsOptions{total: 200, atOnce: 50, viewers: 4, projection: "seed"}),
		defaultViewers().bench,
		defaultCancels().bench,
		defaultCrowd().bench,
	}, models()...)
}
