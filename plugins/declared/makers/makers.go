// Package makers has what makes plugins of the declarations of a file, for each kind that Baton has.
package makers

import (
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/remote"
)

// All returns the makers of all kinds.
func All() declared.Makers {
	return declared.Makers{AGUI: agui}
}

func agui(a declared.Agent) (plugins.Agent, error) {
	return remote.New(remote.Config{
		Name: a.Name, Description: a.Description, URL: a.AGUI.URL, Headers: a.AGUI.Headers,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency,
	})
}
