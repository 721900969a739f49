package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
)

// request is a run to start.
type request struct {
	name     string // of an agent or a workflow
	workflow bool   // name is a workflow's
	text     string
	thread   string // empty for a new one
}

// body returns the body of POST /api/v1/agent/runs.
func (r *request) body() []byte {
	members := map[string]string{"agent": r.name, "content": r.text}
	if r.workflow {
		members = map[string]string{"workflowId": r.name, "content": r.text}
	}
	if r.thread != "" {
		members["threadId"] = r.thread
	}
	body, _ := json.Marshal(members) // strings always encode
	return body
}

// feed is a running run, in this process or on a server.
type feed interface {
	// next returns the run's next event, and io.EOF after the event that ends the run or makes it wait.
	next(ctx context.Context) (event, error)
	// cancel cancels the run. next returns the remaining events.
	cancel(ctx context.Context) error
	close(ctx context.Context) error
}

// view writes events to standard output.
type view interface {
	show(ev event) error
	// end writes the outcome of the run.
	end(o outcome) error
}

func (p *Program) runCommand() *cobra.Command {
	var req request
	var server target
	var output string
	var detach bool
	cmd := &cobra.Command{
		Use:   "run NAME TEXT…",
		Short: "Run an agent or a workflow and show its events",
		Long: "Run starts a run and follows it: on the server given with --server, on the server that runs on the database,\n" +
			"or in this process. On a terminal it writes the answer, in a pipe a line of JSON for each event:\n" +
			"{\"id\": 1, \"event\": {…}}. Ctrl-C cancels the run. The exit code is 0 if the run completes or waits for an\n" +
			"answer, 1 if it fails, 130 if Ctrl-C has cancelled it. With --detach it prints the run's id and does not follow.",
		Example: "  baton run echo hello\n  baton run demo 'a poem about the sea'\n  baton run scripted '{\"do\": [{\"tokens\": 5}]}' | jq .event.delta",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.name, req.text = args[0], strings.Join(args[1:], " ")
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if detach {
				return startDetached(cmd, cfg, server, req)
			}
			v, err := newView(cmd.OutOrStdout(), output)
			if err != nil {
				return err
			}
			return p.run(cmd.Context(), cfg, server, req, v)
		},
	}
	config.Flags(cmd.Flags(), append(serverFlags, logFlags...)...)
	server.flags(cmd, "that executes the run")
	cmd.ValidArgsFunction = p.completeNames(&server)
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the run's id, and let the server execute it")
	cmd.Flags().StringVar(&req.thread, "thread", "", "`thread` to continue (default a new one)")
	addOutputFlag(cmd, &output)
	return cmd
}

func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "auto", "text, json, or auto: text on a terminal, json otherwise")
}

// startDetached starts a run on a server and prints its id.
func startDetached(cmd *cobra.Command, cfg config.Config, server target, req request) error {
	url, err := findServer(cmd.Context(), cfg, server.url)
	if err != nil {
		return err
	}
	if url == "" {
		return errors.New("--detach needs a server that executes the run; start one with serve, or name one with --server")
	}
	server.client = serverClient(&cfg)
	r, err := startRemote(cmd.Context(), server.at(url), req)
	if err != nil {
		return err
	}
	if isTerminal(cmd.ErrOrStderr()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "to follow it: baton watch "+printable(r.runID))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), printable(r.runID))
	return err
}

func (p *Program) run(ctx context.Context, cfg config.Config, server target, req request, v view) error {
	stop, now, release := interrupts(ctx)
	defer release()
	f, err := p.feed(stop, cfg, server, req)
	if err == nil {
		var o outcome
		o, err = follow(stop, now, f, v)
		if err = errors.Join(err, f.close(now)); err == nil {
			return o.exit(stop.Err() != nil)
		}
	}
	if now.Err() != nil || f == nil && stop.Err() != nil {
		return exitCode(exitInterrupted)
	}
	return err
}

// feed starts the run, on a server or in this process.
func (p *Program) feed(ctx context.Context, cfg config.Config, server target, req request) (feed, error) {
	url, err := findServer(ctx, cfg, server.url)
	if err != nil {
		return nil, err
	}
	if url != "" {
		server.client = serverClient(&cfg)
		r, err := startRemote(ctx, server.at(url), req)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
	o, err := p.offers(cfg, offers{})
	if err != nil {
		return nil, err
	}
	return startLocal(ctx, cfg, req, quietLogger(cfg.Log, p.Stderr), o)
}

// findServer returns the URL of the given server, or else of the server that runs on the database, "" if none does.
func findServer(ctx context.Context, cfg config.Config, given string) (string, error) {
	if given != "" {
		return strings.TrimSuffix(given, "/"), nil
	}
	if !strings.HasPrefix(cfg.Database, "sqlite:") {
		// The database does not show whether a server is alive, and this process must not take its runs over.
		url := serverURL(&cfg, cfg.Listen)
		probe, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := ready(probe, serverClient(&cfg), url); err != nil {
			if other := findInCluster(ctx, &cfg); other != "" {
				return other, nil
			}
			return "", fmt.Errorf("on PostgreSQL this command needs a server: start one with serve, or name one with --server (%w)", err)
		}
		return url, nil
	}
	addr, held, err := admin.LockHolder(cfg.Database)
	switch {
	case err != nil:
		return "", err
	case held && addr == "":
		return "", errors.New("the database is in use by a process that has no address; try again when it has ended")
	case held:
		return serverURL(&cfg, addr), nil
	}
	return "", nil
}

// findInCluster returns the URL of a ready server of a cluster, "" if none is found.
func findInCluster(ctx context.Context, cfg *config.Config) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	rows, err := storage.Cluster(ctx, storage.Config{URL: cfg.Database, Timeout: 5 * time.Second})
	if err != nil {
		return ""
	}
	for _, s := range runtime.ServersOf(rows) {
		if s.Addr == "" || s.Role == runtime.Worker {
			continue
		}
		url := serverURL(cfg, s.Addr)
		probe, cancel := context.WithTimeout(ctx, time.Second)
		err := ready(probe, serverClient(cfg), url)
		cancel()
		if err == nil {
			return url
		}
	}
	return ""
}

// follow shows a run until it ends. When stop ends it cancels the run and shows the rest, until now ends.
func follow(stop, now context.Context, f feed, v view) (outcome, error) {
	o := outcome{}
	for {
		ev, err := f.next(stop)
		if err != nil && stop.Err() != nil && !o.cancelling {
			o.cancelling = true
			if err := f.cancel(now); err != nil {
				return o, fmt.Errorf("cancel: %w", err)
			}
			stop = now
			continue
		}
		if errors.Is(err, io.EOF) {
			return o, v.end(o)
		}
		if err != nil {
			return o, err
		}
		o.add(ev)
		if err := v.show(ev); err != nil {
			return o, err
		}
	}
}
