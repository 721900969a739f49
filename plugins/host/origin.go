package host

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/batonrun/baton/plugins"
)

// Origin describes where a plugin comes from, for operators.
type Origin struct {
	Kind   string // OriginProgram or one of the others
	File   string // the declaring file, empty if there is none
	Line   int    // in File, from 1
	Server string // the MCP server of a tool, by the name of its Toolbox
	URL    string // scheme and host of a remote service; the rest can contain secrets

	// For an agent played by a model, as far as known.

	Provider string
	Model    string
	System   string   // the system prompt
	Tools    []string // names or patterns of the tools it can call
}

// The kinds of an Origin.
const (
	OriginProgram = "program" // part of the program that embeds Baton
	OriginBuiltIn = "built-in"
	OriginYAML    = "yaml"    // declared in a settings file
	OriginMCP     = "mcp"     // a tool of an MCP server
	OriginRemote  = "remote"  // behind an AG-UI endpoint
	OriginProcess = "process" // an external program, or a tool of one
)

// From attaches an Origin to a plugin. A Registry adds the plugin inside it and records the origin. Plugins added without
// From come from the program.
type From struct {
	plugins.Plugin
	Origin Origin
}

// Health returns the health reported by a plugin of the registry, or by the Toolbox of a tool. It is nil without a
// dependency or an observation.
func (r *Registry) Health(p plugins.Plugin) *plugins.Health {
	if r.unstarted {
		return nil
	}
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if s, ok := p.(plugins.Reporter); ok {
		return s.Health()
	}
	return nil
}

// Unwell returns the names of the plugins whose external dependency fails, and of the agents with more tools than their models take,
// with the reason of each.
func (r *Registry) Unwell() map[string]string {
	unwell := make(map[string]string)
	for _, e := range r.list {
		if h := r.Health(e.Plugin); h != nil && !h.OK {
			unwell[e.Info().Name] = h.Detail
		}
		if c, ok := e.Plugin.(Chooser); ok {
			if why := r.crowded(c); why != "" {
				unwell[e.Info().Name] = why
			}
		}
	}
	return unwell
}

// crowded returns why an agent has too many tools, or "".
func (r *Registry) crowded(c Chooser) string {
	patterns, most := c.Chooses()
	if most == 0 || len(patterns) == 0 {
		return ""
	}
	names := slices.Collect(maps.Keys(r.agents))
	for _, t := range r.Tools() {
		names = append(names, t.Info().Name)
	}
	widest, matches, all := Widest(patterns, names)
	if all <= most {
		return ""
	}
	return fmt.Sprintf("the model takes %d tools, and there are %d: narrow %q, which matches %d of them", most, all, patterns[widest], matches)
}

// Widest returns the index of the pattern that matches the most names, how many it matches, and how many match any pattern.
func Widest(patterns, names []string) (widest, matches, all int) {
	counts := make([]int, len(patterns)+1)
	for _, name := range names {
		matched := false
		for i, p := range patterns {
			if fits, _ := path.Match(p, name); fits {
				counts[i]++
				matched = true
			}
		}
		if matched {
			all++
		}
	}
	matches = slices.Max(counts)
	return slices.Index(counts, matches), matches, all
}

// Origin returns the origin of a plugin of the registry, or of the Toolbox of a tool.
func (r *Registry) Origin(p plugins.Plugin) Origin {
	if box, ok := r.toolbox(p); ok {
		p = box
	}
	if o, ok := r.origins[originKeyOf(p)]; ok {
		return o
	}
	return Origin{Kind: OriginProgram}
}

// toolbox returns the Toolbox of a tool.
func (r *Registry) toolbox(p plugins.Plugin) (plugins.Toolbox, bool) {
	if t, ok := p.(plugins.Tool); ok {
		return r.Toolbox(t.Info().Name)
	}
	return nil, false
}

// originKey is a name in one of the Registry's two name spaces.
type originKey struct {
	runs bool // an agent or a workflow
	name string
}

func originKeyOf(p plugins.Plugin) originKey {
	_, isAgent := p.(plugins.Agent)
	_, isWorkflow := p.(plugins.Workflow)
	return originKey{isAgent || isWorkflow, p.Info().Name}
}
