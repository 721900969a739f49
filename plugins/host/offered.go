package host

import (
	"maps"
	"slices"

	"github.com/batonrun/baton/plugins"
)

// For returns the registry's view for a project: its plugins and those for all projects, and the workflows whose agents
// and tools are all among them. Use it for lookups only; r starts and closes the plugins.
func (r *Registry) For(project string) *Registry {
	if !r.limited {
		return r
	}
	view := &Registry{
		origins: r.origins, begun: r.begun, unstarted: r.unstarted,
		agents: in(project, r.agents), tools: in(project, r.tools), boxes: in(project, r.boxes), workflows: in(project, r.workflows),
	}
	maps.DeleteFunc(view.workflows, func(_ string, w plugins.Workflow) bool {
		return slices.ContainsFunc(w.Nodes, func(n plugins.Node) bool {
			return n.Agent != "" && view.agents[n.Agent] == nil || n.Tool != "" && !view.calls(n.Tool)
		})
	})
	return view
}

// in returns the plugins offered in a project.
func in[P plugins.Plugin](project string, all map[string]P) map[string]P {
	some := make(map[string]P, len(all))
	for name, p := range all {
		if projects := p.Info().Projects; projects == nil || slices.Contains(projects, project) {
			some[name] = p
		}
	}
	return some
}
