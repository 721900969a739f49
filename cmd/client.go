package cmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
)

// client calls the API of a running server.
type client struct{ target }

// serverFlags are the flags by which commands find the server that runs on the database.
var serverFlags = []string{"database", "listen", "tls-cert", "tls-key"}

// logFlags are the flags of commands that log.
var logFlags = []string{"log-level", "log-format"}

// clientFlags adds the flags that select the server.
func clientFlags(cmd *cobra.Command, t *target) {
	config.Flags(cmd.Flags(), serverFlags...)
	t.flags(cmd, "(default BATON_URL, then the server that runs on the database)")
}

// clientHelp is the paragraph about the server in a command's help.
const clientHelp = "The command uses the server given with --server or in BATON_URL, otherwise the server that runs on the configured\n" +
	"database. It reads the credential from BATON_TOKEN; other users can see --token in the list of processes."

// newClient returns a client for the selected server.
func newClient(cmd *cobra.Command, t target) (*client, error) {
	c, _, err := connect(cmd, t)
	if err == nil && c == nil {
		return nil, errors.New("no server is running on this database; start one with serve, or name one with --server")
	}
	return c, err
}

// connect returns a client for the selected server. Without one it returns nil and the settings.
func connect(cmd *cobra.Command, t target) (*client, config.Config, error) {
	var cfg config.Config
	given := cmp.Or(t.url, strings.TrimSpace(os.Getenv(config.URLVariable)))
	if given == "" {
		var err error
		if cfg, err = load(cmd); err != nil {
			return nil, cfg, err
		}
		t.client = serverClient(&cfg)
		if given, err = findServer(cmd.Context(), cfg, ""); err != nil || given == "" {
			return nil, cfg, err
		}
	}
	c := &client{t.at(strings.TrimSuffix(given, "/"))}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	return c, cfg, c.resolveProject(ctx)
}

// run returns the path of a run, with more segments below it. The user is needed when runs of several users have the id.
func (c *client) run(user, id string, more ...string) string {
	path := strings.Join(append([]string{c.runs(), url.PathEscape(id)}, more...), "/")
	if user != "" {
		path += "?user=" + url.QueryEscape(user)
	}
	return path
}

// addUserFlag adds the flag that selects one of several runs with the same id.
func addUserFlag(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVar(user, "user", "", "`user` of the run, if several users have a run with this id")
}

// do makes a request and decodes its answer into out, unless out is nil.
func (c *client) do(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var text io.Reader = http.NoBody
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(raw)
	}
	req, err := c.request(ctx, method, path, text)
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http().Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return statusError(res)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out)
}
