// Package makers has Baton's makers for all kinds of declarations.
package makers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/mcp"
	"github.com/batonrun/baton/plugins/process"
	"github.com/batonrun/baton/plugins/remote"
)

// All returns the makers of all kinds. Context directories yield nothing that begins with a private path.
func All(private ...string) declared.Makers {
	return declared.Makers{
		Model: func(a declared.Agent) (plugins.Agent, error) { return model(a, private) },
		AGUI:  agui, Command: command, Server: server, Tools: tools, Providers: limit,
	}
}

func model(a declared.Agent, private []string) (plugins.Agent, error) {
	own := declared.Model{
		Provider: a.Provider, Model: a.Model, BaseURL: a.BaseURL, APIKey: a.APIKey, API: a.API, APIVersion: a.APIVersion, Compat: a.Compat,
	}
	options, err := options(a.Parameters)
	if err != nil {
		return nil, err
	}
	m, err := open(own, &a)
	if err != nil {
		return nil, err
	}
	cfg := llm.Config{
		Name: a.Name, Description: a.Description, System: a.System, Model: m, Options: options, Tools: a.Tools,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency, Steps: a.Limits.MaxSteps, RunOn: a.RunOn, Projects: a.Projects,
		Tokens:        int64(a.Limits.MaxTokens),
		ContextTokens: a.ContextTokens, ResultTokens: a.ResultTokens, Guards: a.Guard.Plugins(),
		Approval: a.Approval != nil, Approver: a.Approval.Who().Plugins(),
	}
	for _, f := range a.Fallback {
		other, err := open(*f, &declared.Agent{Parameters: a.Parameters})
		if err != nil {
			return nil, fmt.Errorf("fallback: %w", err)
		}
		cfg.Fallbacks = append(cfg.Fallbacks, other)
	}
	if a.Output != nil {
		cfg.Output = a.Output.Schema
		if a.Output.Structured {
			cfg.Output = json.RawMessage(llm.Structured)
		}
	}
	if a.History != nil {
		cfg.History, cfg.Summarise = a.History.Tokens, a.History.Over == "summarise"
	}
	if a.Context != nil {
		cfg.Items = &directories{a.Context, private}
	}
	return llm.New(cfg)
}

// options returns the options of each call.
func options(p declared.Parameters) (llms.CallOptions, error) {
	o := llms.CallOptions{MaxTokens: p.MaxOutputTokens, Seed: p.Seed, StopWords: p.Stop}
	for _, n := range []struct {
		name string
		from *float64
		most float64
		to   *float64
	}{
		{"temperature", p.Temperature, 2, &o.Temperature}, {"top_p", p.TopP, 1, &o.TopP},
	} {
		switch {
		case n.from == nil:
		case *n.from > n.most:
			return o, fmt.Errorf("parameters.%s: want 0 to %v, got %v", n.name, n.most, *n.from)
		case *n.from == 0:
			*n.to = math.Copysign(0, -1) // 0 means unset
		default:
			*n.to = *n.from
		}
	}
	return o, nil
}

// getenv returns a variable without the line feed that files and shells add to secrets.
func getenv(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// open returns a declared model of an agent.
func open(m declared.Model, a *declared.Agent) (llm.Streamer, error) {
	cfg := surrounded(m, getenv)
	cfg.Pace, cfg.ContextTokens, cfg.Reasoning = pacer(m), a.ContextTokens, a.Parameters.Reasoning
	return provider.Open(cfg)
}

// directories is a ContextSource that returns an item from the first directory that has it. It opens directories on
// demand, because declarations hold no open resources.
type directories struct{ names, private []string }

func (d *directories) Item(ctx context.Context, in *plugins.Input, id string) (string, error) {
	for _, name := range d.names {
		dir, err := llm.OpenDirectory(name, 0, d.private...)
		if err != nil {
			return "", err
		}
		text, err := dir.Item(ctx, in, id)
		_ = dir.Close()
		if !errors.Is(err, llm.ErrNoItem) {
			return text, err
		}
	}
	return "", llm.ErrNoItem
}

// surrounded completes a declared model with the provider's environment variables. A key from the environment is never sent
// to a base_url from the file.
func surrounded(m declared.Model, getenv func(string) string) provider.Config {
	cfg := provider.Config{Provider: m.Provider, Model: m.Model, BaseURL: m.BaseURL, APIKey: m.APIKey}
	if m.BaseURL == "" {
		cfg = provider.Of(m.Provider, getenv)
		cfg.Model, cfg.APIKey = cmp.Or(m.Model, cfg.Model), cmp.Or(m.APIKey, cfg.APIKey)
	}
	cfg.API, cfg.APIVersion = m.API, m.APIVersion
	if m.Compat != nil {
		cfg.Compat = provider.Compat(*m.Compat)
	}
	return cfg
}

// Assistant returns the agent assistant with the model named in the environment and the tools, or nil without such a model.
func Assistant(tools []string) (plugins.Agent, error) {
	cfg, err := provider.FromEnv(getenv)
	if errors.Is(err, provider.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	cfg.Pace = pacer(declared.Model{Provider: cfg.Provider})
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
		Name: a.Name, Description: a.Description, URL: a.AGUI.URL, Headers: a.AGUI.Headers, Stop: a.AGUI.Stop,
		Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency, RunOn: a.RunOn, Projects: a.Projects, Guards: a.Guard.Plugins(),
		Approval: a.Approval != nil, Approver: a.Approval.Who().Plugins(),
	})
}

func command(a declared.Agent) (plugins.Agent, error) {
	return process.NewAgent(process.Config{
		Info: plugins.Info{
			Name: a.Name, Description: a.Description, Timeout: a.Limits.Timeout, Concurrency: a.Limits.Concurrency,
			RunOn: a.RunOn, Projects: a.Projects, Guards: a.Guard.Plugins(), Approval: a.Approval != nil, Approver: a.Approval.Who().Plugins(),
		},
		Command: a.Command, Env: a.Env, Dir: a.Dir, Start: a.StartTimeout,
	})
}

func tools(t declared.Tools) (plugins.Toolbox, error) {
	return process.NewToolbox(process.Config{
		Info:    plugins.Info{Name: t.Name, Timeout: t.Timeout, Projects: t.Projects, Approver: t.Approver.Plugins()},
		Command: t.Command, Env: t.Env, Dir: t.Dir, Start: t.StartTimeout,
	})
}

func server(s declared.Server) (plugins.Toolbox, error) {
	return mcp.New(mcp.Config{
		Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Headers: s.Headers,
		Dir: s.Dir, Allow: s.Allow, Approval: s.Approval, Timeout: s.Timeout, Required: s.Required,
		Projects: s.Projects, Approver: s.Approver.Plugins(),
	})
}
