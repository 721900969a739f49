package openapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// accounts starts a server on which every client is an admin, and returns a client of it.
func (c *client) accounts() *client {
	c.Helper()
	in, _ := c.beside(baton.Config{
		Plugins: builtin.Plugins(),
		Accounts: baton.AuthenticatorFunc(func(*http.Request) (baton.Identity, error) {
			return baton.Identity{User: "root", Projects: []string{"default"}, Role: baton.RoleAdmin, Credential: "key_7"}, nil
		}),
	})
	return in
}

// beside returns a client of another server.
func (c *client) beside(cfg baton.Config) (*client, *baton.Server) {
	c.Helper()
	cfg.Listen, cfg.Database, cfg.Log = "127.0.0.1:0", "sqlite:"+sqlitetest.New(c.T), slog.New(slog.NewTextHandler(c.Output(), nil))
	s, err := baton.New(cfg)
	if err == nil {
		err = s.Start(c.Context())
	}
	must(c, err)
	c.Cleanup(func() { _ = s.Close() })
	in := *c
	in.url, in.http = s.URL(), &http.Client{Transport: new(http.Transport)}
	c.Cleanup(in.http.CloseIdleConnections)
	return &in, s
}

func (c *client) admin() {
	c.do(403, "GET", "/api/projects/default/audit?action=start&limit=1", "")
	c.do(403, "DELETE", "/api/projects/default/users/another/data", "")
	c.do(200, "GET", "/api/v1/limits", "")
	c.do(403, "GET", "/api/v1/limits?user=another", "")
	if s := c.do(200, "GET", "/api/projects/default/stats", "").(object)["totals"].(object); fmt.Sprint(s["completed"]) == "0" || fmt.Sprint(s["started"]) == "0" {
		c.Errorf("runs came to %v", s)
	}
	c.do(404, "GET", "/api/projects/other/stats", "")
	c.do(200, "GET", "/api/projects/default/usage?by=user,agent,model,day&since=2024-01-01&until=2024-02-01", "")
	c.do(200, "GET", "/api/projects/default/usage", "", "Accept", "text/csv")
	for _, wrong := range []string{"by=run", "since=x", "until=2024-13-01", "since=2024-02-02&until=2024-02-01"} {
		c.do(400, "GET", "/api/projects/default/usage?"+wrong, "")
	}
	c.do(200, "GET", "/api/projects/default/budgets", "")
	if me := c.do(200, "GET", "/api/v1/me", "").(object); me["authentication"] != "none" || me["user"] != "local" || me["projectId"] != "default" {
		c.Errorf("got %v", me)
	}
	c.do(404, "GET", "/api/v1/me?projectId=other", "")
	c.do(200, "GET", "/api/projects/default/retention", "")
	if s := c.do(200, "GET", "/api/v1/servers", "").(object)["servers"].([]any)[0].(object); s["role"] != "all" || s["seenAt"] != nil {
		c.Errorf("got %v", s)
	}
	a := c.accounts()
	a.do(200, "GET", "/api/projects/default/retention", "")
	if me := a.do(200, "GET", "/api/v1/me", "").(object); me["authentication"] != "custom" || me["user"] != "root" || me["role"] != "admin" {
		c.Errorf("got %v", me)
	}
	a.do(200, "GET", "/api/v1/limits?user=another", "")
	a.do(202, "POST", runs, `{"agent": "echo", "threadId": "main", "content": "x"}`)
	page := a.do(200, "GET", "/api/projects/default/audit?action=start&limit=1&count=true", "").(object)
	if total := page["total"]; fmt.Sprint(total) != "1" {
		c.Errorf("%v requests are in the audit, want one", total)
	}
	for _, wrong := range []string{"since=x", "until=x", "cursor=x", "limit=0"} {
		a.do(400, "GET", "/api/projects/default/audit?"+wrong, "")
	}
	two := a.do(200, "GET", "/api/projects/default/audit?actor=root&user=root&run=none&until=2100-01-01T00:00:00Z&since=2001-01-01T00:00:00Z&count=true", "").(object)
	if two["total"] == nil || fmt.Sprint(two["total"]) != "0" || len(two["items"].([]any)) != 0 {
		c.Errorf("of what nobody has asked for there is %v", two)
	}
	for _, window := range []string{"", "?window=hour", "?window=day", "?window=week"} {
		a.do(200, "GET", "/api/projects/default/stats"+window, "")
	}
	a.do(400, "GET", "/api/projects/default/stats?window=year", "")
	a.do(202, "POST", "/api/v1/tools/calculator/runs", `{"arguments": {"expression": "6*7"}, "threadId": "main"}`)
	a.do(204, "DELETE", "/api/projects/default/users/root/data", "")
}

// keys tests a server that identifies its callers by API keys.
func (c *client) keys() {
	c.do(404, "GET", "/api/projects/default/keys", "")
	in, s := c.beside(baton.Config{Tuning: baton.Tuning{APIKeys: true}})
	text, _, err := s.CreateAPIKey(c.Context(), "root", []string{"default"}, baton.RoleAdmin, time.Time{})
	must(c, err)
	const path = "/api/projects/default/keys"
	root := []string{"Authorization", "Bearer " + text}
	made := in.do(201, "POST", path, `{"user": "ci", "role": "user", "name": "nightly", "expiresAt": "2999-01-01T00:00:00Z"}`, root...).(object)
	in.do(201, "POST", path, `{"user": "ci", "role": "admin"}`, root...)
	for _, body := range []string{
		`{"user": "ci"}`, `{"role": "user"}`, `{"user": "ci", "role": "root"}`, `{"user": "..", "role": "user"}`, `{"user": "ci", "role": "user", "expiresAt": "2001-01-01T00:00:00Z"}`,
		`{"user": "ci", "role": "user", "expiresAt": "soon"}`, `{"user": "ci", "role": "user", "name": "a\u0000"}`, `{`,
	} {
		in.do(400, "POST", path, body, root...)
	}
	in.do(200, "GET", path+"?limit=1", "", root...)
	in.do(400, "GET", path+"?cursor=x", "", root...)
	in.do(403, "GET", path, "", "Authorization", "Bearer "+made["key"].(string))
	in.do(204, "DELETE", path+"/"+made["id"].(string), "", root...)
	in.do(404, "DELETE", path+"/none", "", root...)
	in.do(401, "GET", path, "", "Authorization", "Bearer "+made["key"].(string))
	in.do(200, "GET", "/api/projects/default/audit?action=revoke_key", "", root...)
}
