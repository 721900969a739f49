// Package makers has what makes plugins of the declarations of a file, for each kind that Baton has.
package makers

import (
	"cmp"
	"errors"
	"os"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/plugins/process"
	"github.com/batonrun/baton/plugins/remote"
)

// All returns the makers of all kinds.
func All() declared.Makers {
	return declared.Makers{Model: model, AGUI: agui, Command: command, Server: server}
}

func model(a declared.Agent) (plugins.Agent, error) {
	m, err := provider.Open(surrounded(a, os.Getenv))
	if err != nil {
		return nil, err
	}
	return llm.New(llm.Config{
		Name: a.Name, Description: a.Description, System: a.System, Model: m, Tools: a.Tools,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency, Steps: a.Limits.MaxSteps, Projects: a.Projects,
	})
}

// surrounded is the model of a declaration, with what the environment says of its provider. A key of the environment does
// not go to a base_url of the file.
func surrounded(a declared.Agent, getenv func(string) string) provider.Config {
	if a.BaseURL != "" {
		return provider.Config{Provider: a.Provider, Model: a.Model, BaseURL: a.BaseURL, APIKey: a.APIKey}
	}
	cfg := provider.Of(a.Provider, getenv)
	cfg.Model, cfg.APIKey = cmp.Or(a.Model, cfg.Model), cmp.Or(a.APIKey, cfg.APIKey)
	return cfg
}

// Assistant returns the agent assistant, played by the model that the environment names, with the tools. It returns nil
// when the environment names none.
func Assistant(tools []string) (plugins.Agent, error) {
	cfg, err := provider.FromEnv(os.Getenv)
	if errors.Is(err, provider.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := provider.Open(cfg)
	if err != nil {
		return nil, err
	}
	return llm.New(llm.Config{
		Name: "assistant", Description: "Answers with the help of tools.", Model: m, Tools: tools,
		System: "You are a helpful assistant. Answer briefly, and use your tools where they help.",
	})
}

func agui(a declared.Agent) (plugins.Agent, error) {
	return remote.New(remote.Config{
		Name: a.Name, Description: a.Description, URL: a.AGUI.URL, Headers: a.AGUI.Headers,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency, Projects: a.Projects,
	})
}

func command(a declared.Agent) (plugins.Agent, error) {
	return process.NewAgent(process.Config{
		Info: plugins.Info{
			Name: a.Name, Description: a.Description, Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency,
			Projects: a.Projects,
		},
		Command: a.Command, Env: a.Env,
	})
}

func server(s declared.Server) (plugins.Toolbox, error) {
	return mcp.New(mcp.Config{
		Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers,
		Allow: s.Allow, Approval: s.Approval, Timeout: s.Timeout, Projects: s.Projects,
	})
}
