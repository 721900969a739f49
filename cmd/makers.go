package cmd

import (
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
)

// makers make what a file declares, a function for each kind.
func makers() declared.Makers {
	return declared.Makers{}
}

// assistant returns the agent that is there when the environment names a model, with the tools of the list, nil when
// there is no model or the name is taken. It is the one of before when that had it.
func assistant(list, before []plugins.Plugin) (plugins.Agent, error) {
	return nil, nil
}
