package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Offer describes the plugins of a registry, in JSON, to servers that have other plugins. See [Registry.With].
type Offer struct {
	Agents, Tools, Toolboxes []Described         `json:",omitempty"` // with Tools, those of Toolboxes
	Workflows                []DescribedWorkflow `json:",omitempty"`
	Partial                  bool                `json:",omitempty"` // some of the plugins are missing: see Shorter
}

// Described is an agent, a tool or a toolbox.
type Described struct {
	plugins.Info

	Origin      Origin
	Health      *plugins.Health `json:",omitempty"`
	Overridable bool            `json:",omitempty"` // an agent asks its model with Input.Overrides
	Guarded     string          `json:",omitempty"` // a hash of an agent's guards
}

// DescribedWorkflow is a workflow.
type DescribedWorkflow struct {
	plugins.Workflow

	Projects []string `json:",omitempty"`
	Origin   Origin
}

// Offer describes the plugins of the registry as they are now.
func (r *Registry) Offer() Offer {
	o := Offer{
		Agents: describe(r, r.Agents()), Tools: describe(r, r.Tools()), Toolboxes: describe(r, r.Toolboxes()),
	}
	for _, w := range r.Workflows() {
		o.Workflows = append(o.Workflows, DescribedWorkflow{w, w.Projects, r.Origin(w)})
	}
	return o
}

// hashOf returns a hash of guards, by which servers compare them, or "" for none.
func hashOf(gs plugins.Guards) string {
	if len(gs.Input)+len(gs.Tool)+len(gs.Output) == 0 {
		return ""
	}
	text, _ := json.Marshal(gs) // names, rules and times
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func describe[P plugins.Plugin](r *Registry, list []P) []Described {
	all := make([]Described, len(list))
	for i, p := range list {
		o, ok := any(p).(Overridable)
		info := p.Info()
		all[i] = Described{info, r.Origin(p), r.Health(p), ok && o.Overridable(), hashOf(info.Guards)}
	}
	return all
}

// Shorter returns the offer without its longest parts, more of them for a higher n: 0 leaves out descriptions, 1 also schemas and
// origins, 2 also workflows and tools, and 3 everything.
func (o Offer) Shorter(n int) Offer {
	shorter := func(list []Described) []Described {
		short := slices.Clone(list)
		for i := range short {
			d := &short[i]
			if d.Description, d.Health = "", nil; n > 0 {
				d.Parameters, d.Output, d.Origin = nil, nil, Origin{Kind: d.Origin.Kind}
			}
		}
		return short
	}
	if n > 2 {
		return Offer{Partial: true}
	}
	o.Agents, o.Tools, o.Toolboxes, o.Workflows = shorter(o.Agents), shorter(o.Tools), shorter(o.Toolboxes), slices.Clone(o.Workflows)
	for i := range o.Workflows {
		o.Workflows[i].Description = ""
	}
	if n > 1 {
		o.Tools, o.Workflows, o.Partial = nil, nil, true
	}
	return o
}

// For returns the part of the offer that a project may use.
func (o Offer) For(project string) Offer { return o.Registry().For(project).Offer() }

// told returns the info of another server's plugin: absent JSON came as null.
func told(info plugins.Info) plugins.Info {
	for _, raw := range []*json.RawMessage{&info.Parameters, &info.Output} {
		if string(*raw) == "null" {
			*raw = nil
		}
	}
	return info
}

// Registry returns the described plugins. They serve lookups only: none can be called. A plugin that a registry cannot have is left out.
func (o Offer) Registry() *Registry {
	r := new(Registry)
	add := func(p plugins.Plugin, origin Origin) { _ = r.Add(From{p, origin}) } // another version may allow what this one does not
	boxes := make(map[string]*toolboxElsewhere)
	for _, d := range o.Toolboxes {
		boxes[d.Name] = &toolboxElsewhere{elsewhere: elsewhere{told(d.Info), d.Health}}
		add(boxes[d.Name], d.Origin)
	}
	for _, d := range o.Agents {
		add(agentElsewhere{elsewhere{told(d.Info), d.Health}, d.Overridable}, d.Origin)
	}
	for _, d := range o.Tools {
		tool := toolElsewhere{elsewhere{told(d.Info), d.Health}}
		if box, ok := r.Toolbox(d.Name); ok {
			boxes[box.Info().Name].tools = append(boxes[box.Info().Name].tools, tool)
			continue
		}
		add(tool, d.Origin)
	}
	for _, d := range o.Workflows {
		d.Workflow.Projects = d.Projects
		add(d.Workflow, d.Origin)
	}
	return r
}

// With returns a registry that has the plugins of r and, under names that are free, those of others; in the view of a project, those
// that are free in that project. Like that of For it serves lookups only.
func (r *Registry) With(others []*Registry) *Registry {
	union := &Registry{
		agents: maps.Clone(r.agents), tools: maps.Clone(r.tools), boxes: maps.Clone(r.boxes), workflows: maps.Clone(r.workflows),
		origins: maps.Clone(r.origins), begun: r.begun, limited: r.limited,
	}
	for _, o := range others {
		union.limited = union.limited || o.limited
		join(union, &union.agents, o, o.agents, union.runs)
		join(union, &union.boxes, o, o.boxes, union.boxed)
		join(union, &union.tools, o, o.tools, union.calls)
		join(union, &union.workflows, o, o.workflows, union.runs)
	}
	if union.limited {
		union.parts = append([]*Registry{r}, others...)
	}
	return union
}

func join[P plugins.Plugin](union *Registry, mine *map[string]P, o *Registry, theirs map[string]P, taken func(string) bool) {
	for name, p := range theirs {
		if !taken(name) {
			put(mine, name, p)
			put(&union.origins, originKeyOf(p), o.Origin(p))
		}
	}
}

// elsewhere is a plugin of another server.
type elsewhere struct {
	info   plugins.Info
	health *plugins.Health
}

var errElsewhere = errors.New("another server has this plugin")

func (e elsewhere) Info() plugins.Info      { return e.info }
func (e elsewhere) Health() *plugins.Health { return e.health }

type agentElsewhere struct {
	elsewhere

	overridable bool
}

func (a agentElsewhere) Overridable() bool { return a.overridable }

func (agentElsewhere) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, errElsewhere
}

type toolElsewhere struct{ elsewhere }

func (toolElsewhere) Call(context.Context, *plugins.Call) (agui.ToolOutput, error) {
	return agui.ToolOutput{}, errElsewhere
}

type toolboxElsewhere struct {
	elsewhere
	tools []plugins.Tool
}

func (t *toolboxElsewhere) Tools() []plugins.Tool { return t.tools }
