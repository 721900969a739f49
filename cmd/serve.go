package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

func (p *Program) serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API",
		Long: "Serve runs the server with the agents, tool servers and workflows in the settings file. SIGHUP reloads them\n" +
			"without interrupting runs; a file with errors changes nothing.\n\n" +
			"After the first SIGINT or SIGTERM the server accepts no more runs, and running ones have timeouts.drain\n" +
			"(30s) to finish; the others resume at the next start. A second signal ends the server immediately.\n\n" +
			"Several servers execute the runs of one PostgreSQL database together; one serves a SQLite file. When a server\n" +
			"stops, dies, or is silent for timeouts.lease, the others take its runs over. If that happens to a server that\n" +
			"lives, or its database was restored to an earlier state, it ends with exit code 3.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			stdout, stderr := newPrinter(p.Stdout), newPrinter(p.Stderr)
			defer stdout.close()
			defer stderr.close()
			return p.serve(cmd.Context(), cfg, stdout, newLogger(cfg.Log, stderr), func() (config.Config, error) { return load(cmd) })
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

func (p *Program) serve(ctx context.Context, cfg config.Config, stdout io.Writer, log *slog.Logger, again func() (config.Config, error)) error {
	stop, now, release := interrupts(ctx)
	defer release()
	offered, err := p.offers(cfg, offers{})
	if err != nil {
		return err
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	set, err := offered.opened(stop, cfg, log)
	if err != nil {
		return err
	}
	traced, err := traces.FromEnv(ctx, buildVersion(), log)
	if err != nil {
		return &usageError{err}
	}
	if traced != nil {
		set.Tracer = traced
		defer flush(traced, log)
	}
	s, err := start(stop, set)
	if err != nil && stop.Err() != nil && errors.Is(err, context.Canceled) {
		log.Info("stopped before it was ready")
		return nil
	}
	if errors.Is(err, runtime.ErrUnavailable) {
		return fmt.Errorf("%s: %w", databaseName(cfg.Database), err)
	}
	if err != nil {
		return err
	}
	defer tuneGC()()
	var reloading sync.WaitGroup
	defer reloading.Wait()
	reading, unread := context.WithCancel(stop)
	defer unread()
	files := &reloader{program: p, server: s, load: again, started: cfg, began: offered, now: offered, log: log}
	reloading.Go(func() { files.watch(reading, hangups) }) // ends with reading
	log.Info("serving", "url", s.URL(), "version", buildVersion())
	greet(stdout, s.URL(), cfg, offered.list)
	if err := s.Wait(stop); err != nil {
		log.Error("ending", "error", err, "help", "baton doctor checks the database and the addresses")
		err = errors.Join(err, s.Close())
		if errors.Is(err, runtime.ErrFenced) {
			return exitCode(exitFenced)
		}
		return err
	}
	log.Info("stopping", "drain", cfg.Timeouts.Drain.String())
	return shutdown(now, s)
}

// flush sends the remaining spans.
func flush(traced *traces.Traces, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := traced.Shutdown(ctx); err != nil {
		log.Warn("failed to send the last traces", "error", err)
	}
}

// greet prints the address of the server and a command to try: a conversation with the assistant, or a run.
func greet(w io.Writer, url string, cfg config.Config, list []plugins.Plugin) {
	fmt.Fprintf(w, "baton is serving on %s (%s)\n", url, databaseName(cfg.Database))
	if cfg.Console {
		fmt.Fprintf(w, "console: %s/\n", url)
	}
	agents := slices.DeleteFunc(slices.Clone(list), func(p plugins.Plugin) bool {
		_, ok := p.(plugins.Agent)
		return !ok
	})
	switch {
	case slices.ContainsFunc(agents, func(p plugins.Plugin) bool { return p.Info().Name == assistant }):
		fmt.Fprintf(w, "try: baton chat --server %s\n", url)
	case len(agents) > 0 && cfg.Auth.Mode == config.AuthNone:
		agent := agents[0].Info().Name
		fmt.Fprintf(w, "try: curl -N -H 'Content-Type: application/json' -H 'Accept: text/event-stream' -d '{\"agent\":%q,\"content\":\"hello\"}' %s/api/v1/agent/runs\n", agent, url)
	}
}

// shutdown stops the server, within two seconds after now has ended.
func shutdown(now context.Context, s *baton.Server) error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(now) }() // ends with the process at the latest
	select {
	case err := <-stopped:
		return err
	case <-now.Done():
	}
	select {
	case err := <-stopped:
		return errors.Join(errors.New("stopped before all runs had finished"), err)
	case <-time.After(2 * time.Second):
		return errors.New("stopped while runs were still executing")
	}
}
