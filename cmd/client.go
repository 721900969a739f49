package cmd

import (
	"bytes"
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

// client asks a running server about runs.
type client struct{ target }

// clientFlags adds the flags with which a command finds its server.
func clientFlags(cmd *cobra.Command, t *target) {
	config.Flags(cmd.Flags())
	t.flags(cmd, "(default BATON_URL, else the one that has the database)")
}

// clientHelp is what a command says of its server.
const clientHelp = "The server is the one given with --server or in BATON_URL, else the one that has the configured database. Its\n" +
	"credential is read from BATON_TOKEN: --token shows it to whoever lists processes."

// newClient returns one for the server that is meant.
func newClient(cmd *cobra.Command, t target) (*client, error) {
	given := t.url
	if given == "" {
		given = os.Getenv(config.URLVariable)
	}
	if given == "" {
		cfg, err := load(cmd)
		if err != nil {
			return nil, err
		}
		t.client = ownClient(&cfg)
		if given, err = findServer(cmd.Context(), cfg, ""); err != nil {
			return nil, err
		}
	}
	if given == "" {
		return nil, errors.New("nobody serves the configured database; start a server with serve, or name one with --server")
	}
	c := &client{t.at(strings.TrimSuffix(given, "/"))}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	return c, c.settle(ctx)
}

// run is the path of a user's run and of what is below it. Without a user it is the one that the caller means by its id.
func (c *client) run(user, id string, more ...string) string {
	path := strings.Join(append([]string{c.runs(), url.PathEscape(id)}, more...), "/")
	if user != "" {
		path += "?user=" + url.QueryEscape(user)
	}
	return path
}

// whose adds the flag that says whose a run is that others have one of the same name of.
func whose(cmd *cobra.Command, user *string) {
	cmd.Flags().StringVar(user, "user", "", "the `user` whose run it is, where several have one of that name")
}

// do makes a request and decodes its answer into out, if that is not nil.
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
