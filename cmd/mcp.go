package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/transports/mcp"
)

func (p *Program) mcpCommand() *cobra.Command {
	var server target
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the MCP tools over standard input and output",
		Long: "Mcp serves Baton's tools to a Model Context Protocol client that starts it and talks to it over standard input\n" +
			"and output. It forwards requests to the server given with --server, or to the server that runs on the\n" +
			"database; otherwise it executes runs itself. It ends with standard input; runs that it executes then resume\n" +
			"at the next start. Logs go to standard error.",
		Example: `  {"mcpServers": {"baton": {"command": "baton", "args": ["mcp"]}}}`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			return p.mcp(cmd.Context(), cfg, server, cmd.InOrStdin())
		},
	}
	config.Flags(cmd.Flags(), append(serverFlags, logFlags...)...)
	server.flags(cmd, "to forward requests to")
	return cmd
}

func (p *Program) mcp(ctx context.Context, cfg config.Config, server target, in io.Reader) error {
	stop, _, release := interrupts(ctx)
	defer release()
	url, err := findServer(stop, cfg, server.url)
	if err != nil {
		return err
	}
	if url != "" {
		server.client = serverClient(&cfg)
		err = (&bridge{server: server.at(url), in: in, out: p.Stdout}).forward(stop)
	} else {
		err = p.serveTools(stop, cfg, in)
	}
	if stop.Err() != nil && errors.Is(err, context.Canceled) { // stopped by a signal
		return nil
	}
	return err
}

// serveTools serves the tools in this process.
func (p *Program) serveTools(ctx context.Context, cfg config.Config, in io.Reader) error {
	o, err := p.offers(cfg, offers{})
	if err != nil {
		return err
	}
	stderr := newPrinter(p.Stderr)
	defer stderr.close()
	log := quietLogger(cfg.Log, stderr)
	e, err := startEngine(ctx, cfg, log, o)
	if err != nil {
		return err
	}
	tools := mcp.Transport{Runtime: e.Runtime(), Log: log, Version: buildVersion()}
	err = tools.Serve(ctx, caller, io.NopCloser(in), nopCloser{p.Stdout})
	return errors.Join(err, e.Close())
}

// nopCloser is a writer that is closed elsewhere.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
