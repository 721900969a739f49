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

// target is a server that a command is a client of, and whom it asks as.
type target struct {
	url     string
	token   string       // empty where there are no accounts
	project string       // empty for the token's default one
	client  *http.Client // that asks it; nil for http.DefaultClient
}

// flags adds the flags that name a server.
func (t *target) flags(cmd *cobra.Command, what string) {
	cmd.Flags().StringVar(&t.url, "server", "", "`URL` of a server "+what)
	cmd.Flags().StringVar(&t.token, "token", "", "API key or `token` for the server; BATON_TOKEN keeps it out of the list of processes")
	cmd.Flags().StringVar(&t.project, "project", "", "`project` of the server (default the token's first, or default)")
}

// at is the target at another URL, with the token of the environment if none was given.
func (t target) at(url string) target {
	t.url, t.token = url, cmp.Or(t.token, os.Getenv(config.TokenVariable))
	return t
}

// http is what asks the server.
func (t target) http() *http.Client { return cmp.Or(t.client, http.DefaultClient) }

// settle finds out which project is meant where none was given: only the server knows a token's default one.
func (t *target) settle(ctx context.Context) error {
	if t.project != "" || t.token == "" {
		return nil
	}
	req, err := t.request(ctx, http.MethodGet, "/api/v1/me", http.NoBody)
	if err != nil {
		return err
	}
	res, err := t.http().Do(req)
	if err != nil {
		return &awayError{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 {
		return statusError(res)
	}
	var me wire.Me
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&me); err != nil {
		return &awayError{err: err}
	}
	t.project = me.ProjectID
	return nil
}

// runs is the path of the project's runs, behind settle.
func (t target) runs() string {
	return "/api/projects/" + url.PathEscape(cmp.Or(t.project, "default")) + "/agent-runs"
}

// request returns a request of the server. The client that sends it takes the token off again where it is led elsewhere.
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
