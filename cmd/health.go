package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
)

func healthCommand() *cobra.Command {
	var server string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Check whether the server at the configured address is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			url := cmp.Or(server, serverURL(&cfg, cfg.Listen))
			if err := ready(ctx, serverClient(&cfg), url); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), url, "is ready")
			return err
		},
	}
	config.Flags(cmd.Flags(), "listen", "tls-cert", "tls-key")
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the server (default the configured address)")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for the answer")
	return cmd
}

// ready returns nil if the server is ready to serve.
func ready(ctx context.Context, client *http.Client, server string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	if res.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("%s %w: %w", server, errNotReady, refusal(res))
	}
	return fmt.Errorf("%s is not ready: %w", server, refusal(res))
}

// errNotReady is the answer of a Baton server that is not ready. Another program answers something else.
var errNotReady = errors.New("is not ready")

// refusal reads the error in a server's answer.
func refusal(res *http.Response) error {
	var body struct{ Detail, Code string }
	text, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil || json.Unmarshal(text, &body) != nil || body.Detail == "" {
		return fmt.Errorf("status %s", res.Status)
	}
	return fmt.Errorf("%s (%d %s)", body.Detail, res.StatusCode, body.Code)
}
