// Package builtin lists the plugins that every server offers and that need no key or configuration.
package builtin

import (
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/demo"
	"github.com/batonrun/baton/plugins/echo"
	"github.com/batonrun/baton/plugins/scripted"
	"github.com/batonrun/baton/plugins/tools"
)

// Trials returns the plugins for trying out a server. Do not offer them to strangers: they sleep, fail and write on request.
func Trials() []plugins.Plugin {
	return append([]plugins.Plugin{echo.Agent{}, scripted.Agent{}, tools.Sleep{}, tools.Stubborn{}, tools.Fail{}}, demo.Plugins()...)
}

// Plugins returns the agents echo and scripted, the tools sleep, stubborn, calculator, clock and fail, and
// the workflow demo with its agents.
func Plugins() []plugins.Plugin {
	list := []plugins.Plugin{
		echo.Agent{},
		scripted.Agent{},
		tools.Sleep{},
		tools.Stubborn{},
		tools.Calculator{},
		tools.Clock{},
		tools.Fail{},
	}
	return append(list, demo.Plugins()...)
}
