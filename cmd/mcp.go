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
		Short: "Serve the tools of MCP over standard input and output",
		Long: "Mcp is what a program starts that speaks the Model Context Protocol with its tools over their standard\n" +
			"input and output. It passes on to the server that has the database, or to the one given with --server;\n" +
			"without any, it runs the agents itself. It ends when standard input does: what still runs then goes on\n" +
			"at the next start. Standard output has nothing but the protocol, and logs go to standard error.",
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
	config.Flags(cmd.Flags())
	server.flags(cmd, "to pass on to")
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
		server.client = ownClient(&cfg)
		err = (&bridge{server: server.at(url), in: in, out: p.Stdout}).pass(stop)
	} else {
		err = p.serveTools(stop, cfg, in)
	}
	if stop.Err() != nil && errors.Is(err, context.Canceled) { // it was told to stop, and did
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
	log := aside(cfg.Log, p.Stderr)
	e, err := startEngine(ctx, cfg, log, o.list)
	if err != nil {
		return err
	}
	tools := mcp.Transport{Runtime: e.Runtime(), Log: log, Version: buildVersion()}
	err = tools.Serve(ctx, caller, io.NopCloser(in), nopCloser{p.Stdout})
	return errors.Join(err, e.Close())
}

// nopCloser is a writer that others close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
