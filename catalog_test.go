package baton_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// unreachable is a toolbox with an unreachable server.
type unreachable struct{ since time.Time }

func (unreachable) Info() plugins.Info { return plugins.Info{Name: "files", Description: "Files"} }

func (unreachable) Tools() []plugins.Tool { return []plugins.Tool{limitedTool{limited{"files.read"}}} }

func (a unreachable) Health() *plugins.Health {
	return &plugins.Health{Since: a.since, Detail: "dial tcp 10.0.0.7:80: refused"}
}

// TestCatalog_ShowsOriginByRole reads the list of plugins with each role.
func TestCatalog_ShowsOriginByRole(t *testing.T) {
	t.Parallel()
	type about struct {
		Kind, File, Server, URL, Detail string
		Line                            int
		OK, Known                       bool
	}
	since := time.Now().UTC().Truncate(time.Millisecond)
	list := []plugins.Plugin{
		host.From{Plugin: unreachable{since}, Origin: host.Origin{
			Kind: host.OriginMCP, File: "baton.yaml", Line: 7, Server: "files", URL: "https://tools.example.com",
		}},
		host.From{Plugin: boss(), Origin: host.Origin{
			Kind: host.OriginYAML, File: "baton.yaml", Line: 9, Provider: "openai", Model: "m", Tools: []string{"files.*"},
		}},
		limitedAgent{limited{"mine"}},
	}
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Accounts: baton.AuthenticatorFunc(byHeader), Plugins: list})
	alone := open(t, baton.Config{Listen: "127.0.0.1:0", Plugins: list})
	for _, c := range []struct {
		url, who string
		inside   bool
	}{
		{s.URL(), "p1/alice/user", false},
		{s.URL(), "p1/vic/viewer", false},
		{s.URL(), "p1/olga/operator", true},
		{s.URL(), "p1/adam/admin", true},
		{alone.URL(), "", true},
	} {
		type told struct {
			Name   string
			Origin struct {
				Kind              string
				File, Server, URL *string
				Line              *int
			}
			Health *struct {
				OK     bool
				Since  time.Time
				Detail *string
			}
			Model *struct{ Provider, Name string }
			Tools json.RawMessage
		}
		var got struct{ Agents, Tools, Servers []told }
		res := send(t, "GET", c.url+"/api/v1/agents", "", "User", c.who)
		must(t, json.Unmarshal([]byte(answer(t, res)), &got))
		brief := map[string]about{}
		for kind, all := range map[string][]told{"agent ": got.Agents, "tool ": got.Tools, "server ": got.Servers} {
			for _, a := range all {
				b := about{Kind: a.Origin.Kind, Known: a.Health != nil}
				for to, from := range map[*string]*string{&b.File: a.Origin.File, &b.Server: a.Origin.Server, &b.URL: a.Origin.URL} {
					if from != nil {
						*to = *from
					}
				}
				if a.Origin.Line != nil {
					b.Line = *a.Origin.Line
				}
				if a.Health != nil {
					if b.OK = a.Health.OK; !a.Health.Since.Equal(since) {
						t.Errorf("%s: since %v, want %v", a.Name, a.Health.Since, since)
					}
					if a.Health.Detail != nil {
						b.Detail = *a.Health.Detail
					}
				}
				brief[kind+a.Name] = b
				if a.Name == "boss" && (a.Model == nil || a.Model.Provider != "openai" || a.Model.Name != "m" || string(a.Tools) != `["files.*"]`) {
					t.Errorf("%s is told of the boss %+v", c.who, a)
				}
			}
		}
		server := about{Kind: "mcp", Server: "files", Known: true}
		agent := about{Kind: "yaml"}
		if c.inside {
			server.File, server.Line, server.URL, server.Detail = "baton.yaml", 7, "https://tools.example.com", "dial tcp 10.0.0.7:80: refused"
			agent.File, agent.Line = "baton.yaml", 9
		}
		want := map[string]about{"server files": server, "tool files.read": server, "agent boss": agent}
		if c.who != "" {
			want["agent mine"] = about{Kind: "program"}
		}
		if diff := cmp.Diff(want, brief); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.who, diff)
		}
	}
}
