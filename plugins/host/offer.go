package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/batonrun/baton/plugins"
)

// Offered is a plugin of a server, as the other servers of its database know it.
type Offered struct {
	Kind     string   `json:"kind"` // KindAgent or one of the others
	Name     string   `json:"name"`
	Projects []string `json:"projects,omitzero"` // nil for all; those of a workflow are in common with its agents and tools
	RunOn    string   `json:"runOn,omitempty"`   // see plugins.Info
	Hash     string   `json:"hash"`              // of the definition
}

// Kinds of an Offered. A Toolbox stands for its tools.
const (
	KindAgent    = "agent"
	KindTool     = "tool"
	KindToolbox  = "tool server"
	KindWorkflow = "workflow"
)

// In reports whether the plugin is offered in a project.
func (o *Offered) In(project string) bool {
	return o.Projects == nil || slices.Contains(o.Projects, project)
}

// Executes reports whether the plugin is the agent or the tool of a node.
func (o *Offered) Executes(n *plugins.Node) bool {
	switch o.Kind {
	case KindAgent:
		return o.Name == n.Agent
	case KindTool:
		return o.Name == n.Tool
	}
	return o.Kind == KindToolbox && strings.HasPrefix(n.Tool, o.Name+".")
}

// Offer describes the plugins of the registry.
func (r *Registry) Offer() []Offered {
	list := make([]Offered, len(r.list))
	for i, e := range r.list {
		info := e.Info()
		o := Offered{Name: info.Name, Projects: info.Projects, RunOn: info.RunOn}
		var nodes []plugins.Node
		switch p := e.Plugin.(type) {
		case plugins.Agent:
			o.Kind = KindAgent
		case plugins.Toolbox:
			o.Kind = KindToolbox
		case plugins.Workflow:
			o.Kind, nodes = KindWorkflow, p.Nodes
			for i := range nodes {
				o.Projects = common(o.Projects, r.projectsOf(&nodes[i]))
			}
		default:
			o.Kind = KindTool
		}
		o.Hash = hashOf(info, nodes, r.Origin(e.Plugin))
		list[i] = o
	}
	return list
}

// projectsOf returns the projects of a node's agent or tool, nil for all.
func (r *Registry) projectsOf(n *plugins.Node) []string {
	if a, ok := r.agents[n.Agent]; ok {
		return a.Info().Projects
	}
	if t, ok := r.tools[n.Tool]; ok {
		return t.Info().Projects
	}
	if box, ok := r.Toolbox(n.Tool); ok {
		return box.Info().Projects
	}
	return nil
}

// common returns the projects in both lists, of which nil has all.
func common(a, b []string) []string {
	if a == nil {
		return b
	}
	return slices.DeleteFunc(slices.Clone(a), func(project string) bool { return b != nil && !slices.Contains(b, project) })
}

// hashOf returns a hash by which servers compare definitions. A description does not count: that of a program is known only once the
// program runs.
func hashOf(info plugins.Info, nodes []plugins.Node, origin Origin) string {
	info.Description, origin.File, origin.Line = "", "", 0
	text, _ := json.Marshal([]any{info, info.Guards, nodes, origin}) // an agent's schema may be no JSON: then there is no text
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
