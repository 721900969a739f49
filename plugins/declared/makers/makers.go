// Package makers has what makes plugins of the declarations of a file, for each kind that Baton has.
package makers

import (
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/plugins/process"
	"github.com/batonrun/baton/plugins/remote"
)

// All returns the makers of all kinds.
func All() declared.Makers {
	return declared.Makers{AGUI: agui, Command: command, Server: server}
}

func agui(a declared.Agent) (plugins.Agent, error) {
	return remote.New(remote.Config{
		Name: a.Name, Description: a.Description, URL: a.AGUI.URL, Headers: a.AGUI.Headers,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency,
	})
}

func command(a declared.Agent) (plugins.Agent, error) {
	return process.NewAgent(process.Config{
		Info: plugins.Info{
			Name: a.Name, Description: a.Description, Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency,
		},
		Command: a.Command, Env: a.Env,
	})
}

func server(s declared.Server) (plugins.Toolbox, error) {
	return mcp.New(mcp.Config{
		Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers,
		Allow: s.Allow, Approval: s.Approval, Timeout: s.Timeout,
	})
}
