package declared

import (
	"errors"

	"github.com/batonrun/baton/plugins"
)

// Makers make plugins from declarations that passed all checks of the file. They open nothing. A declaration without a
// maker is an error.
type Makers struct {
	Model   func(Agent) (plugins.Agent, error)    // for an agent with a provider
	AGUI    func(Agent) (plugins.Agent, error)    // for an agent with an endpoint
	Command func(Agent) (plugins.Agent, error)    // for an agent with a program
	Server  func(Server) (plugins.Toolbox, error) // for an MCP server
	Tools   func(Tools) (plugins.Toolbox, error)  // for a program with tools

	Providers func(map[string]Provider) // is called with the limits of a file without errors; nil ignores them
}

func (m Makers) agent(a *Agent) (plugins.Plugin, error) {
	key, build := "provider", m.Model
	switch {
	case a.AGUI != nil:
		key, build = "agui", m.AGUI
	case a.Command != nil:
		key, build = "command", m.Command
	}
	if build == nil {
		return nil, errors.New(key + ": this program does not support such agents")
	}
	return build(*a)
}

func (m Makers) server(s *Server) (plugins.Plugin, error) {
	if m.Server == nil {
		return nil, errors.New("this program does not support MCP servers")
	}
	return m.Server(*s)
}

func (m Makers) tools(t *Tools) (plugins.Plugin, error) {
	if m.Tools == nil {
		return nil, errors.New("this program does not support programs with tools")
	}
	return m.Tools(*t)
}
