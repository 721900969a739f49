package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/transports/wire"
)

// target is the server that a command calls, and its credential.
type target struct {
	url     string
	token   string       // empty without accounts
	project string       // empty for the token's default project
	client  *http.Client // nil for http.DefaultClient
}

// flags adds the flags that name a server.
func (t *target) flags(cmd *cobra.Command, purpose string) {
	cmd.Flags().StringVar(&t.url, "server", "", "`URL` of a server "+purpose)
	cmd.Flags().StringVar(&t.token, "token", "", "API key or `token` for the server; BATON_TOKEN keeps it out of the list of processes")
	cmd.Flags().StringVar(&t.project, "project", "", "`project` on the server (default the token's first project, or default)")
}

// at returns the target with another URL, and with the token of the environment if none was given.
func (t target) at(url string) target {
	t.url, t.token = url, cmp.Or(t.token, strings.TrimSpace(os.Getenv(config.TokenVariable)))
	return t
}

// http returns the client for the server.
func (t target) http() *http.Client { return cmp.Or(t.client, http.DefaultClient) }

// resolveProject sets the project to the token's default project if none was given. Only the server knows it.
func (t *target) resolveProject(ctx context.Context) error {
	if t.project != "" || t.token == "" {
		return nil
	}
	req, err := t.request(ctx, http.MethodGet, "/api/v1/me", http.NoBody)
	if err != nil {
		return err
	}
	res, err := t.http().Do(req)
	if err != nil {
		return &unavailableError{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return statusError(res)
	}
	var me wire.Me
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&me); err != nil {
		return &unavailableError{err: err}
	}
	t.project = me.ProjectID
	return nil
}

// runs returns the path of the project's runs. Call resolveProject before.
func (t target) runs() string {
	return "/api/projects/" + url.PathEscape(cmp.Or(t.project, "default")) + "/agent-runs"
}

// request returns a request to the server. The client removes the token when it follows a redirect to another host.
func (t target) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	if t.project != "" && !strings.HasPrefix(path, "/api/projects/") {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "projectId=" + url.QueryEscape(t.project)
	}
	req, err := http.NewRequestWithContext(ctx, method, t.url+path, body)
	if err == nil && t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return req, err
}
