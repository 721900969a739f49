package declared

import (
	"errors"

	"github.com/batonrun/baton/plugins"
)

// Makers make the plugins of the kinds of declarations, which are checked as far as the file alone tells. They open
// nothing. A kind without a maker is an error of the file that has one.
type Makers struct {
	Model   func(Agent) (plugins.Agent, error)    // of an agent with a provider
	AGUI    func(Agent) (plugins.Agent, error)    // of one behind an endpoint
	Command func(Agent) (plugins.Agent, error)    // of a program
	Server  func(Server) (plugins.Toolbox, error) // of a server of tools
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
		return nil, errors.New(key + ": this program has no such agents")
	}
	return build(*a)
}

func (m Makers) server(s *Server) (plugins.Plugin, error) {
	if m.Server == nil {
		return nil, errors.New("this program has no servers of tools")
	}
	return m.Server(*s)
}
