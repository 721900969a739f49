package wire

import (
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// Catalog lists the offered agents and workflows, the tools of the agents, and the servers that have some of them.
type Catalog struct {
	Agents  []CatalogAgent  `json:"agents"`
	Tools   []CatalogTool   `json:"tools"`
	Servers []CatalogServer `json:"servers"`
}

// CatalogAgent is an agent with its details.
type CatalogAgent struct {
	Agent
	About

	Model *Model   `json:"model"` // null when it is not known
	Tools []string `json:"tools"` // that it may call: names, or patterns; null when they are not known
}

// CatalogTool is a tool with its details.
type CatalogTool struct {
	Tool
	About
}

// CatalogServer is a server of tools, or a program that has some.
type CatalogServer struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	About

	Tools int `json:"tools"` // that it has now
}

// CatalogWorkflows are the workflows, by name.
type CatalogWorkflows struct {
	Workflows []CatalogWorkflow `json:"workflows"`
}

// CatalogWorkflow is a workflow with its details.
type CatalogWorkflow struct {
	Workflow
	About
}

// About is the origin and the health of a plugin.
type About struct {
	Origin Origin  `json:"origin"`
	Health *Health `json:"health"` // null without dependencies, or before the first use
}

// Origin is where a plugin comes from. Files and addresses are shown to operators only.
type Origin struct {
	Kind   string  `json:"kind"`
	File   *string `json:"file"`
	Line   *int    `json:"line"`
	Server *string `json:"server"` // of tools
	URL    *string `json:"url"`    // scheme and host
}

// Health is how something is that a plugin depends on, as it was last seen.
type Health struct {
	OK     bool       `json:"ok"`
	Since  *time.Time `json:"since"`
	Detail *string    `json:"detail"`
}

// Model is the model that plays an agent.
type Model struct {
	Provider string  `json:"provider"`
	Name     *string `json:"name"` // null for the provider's default
}

// NewCatalog returns the registry's agents, tools and servers. Inside includes the details for operators.
func NewCatalog(reg *host.Registry, inside bool) Catalog {
	c := Catalog{Agents: []CatalogAgent{}, Tools: []CatalogTool{}, Servers: []CatalogServer{}}
	for _, a := range reg.Agents() {
		agent := CatalogAgent{Agent: newAgent(a.Info()), About: newAbout(reg, a, inside)}
		if o := reg.Origin(a); o.Provider != "" {
			agent.Model, agent.Tools = &Model{o.Provider, orNull(o.Model)}, list(o.Tools)
		}
		c.Agents = append(c.Agents, agent)
	}
	count := make(map[string]int)
	for _, t := range reg.Tools() {
		c.Tools = append(c.Tools, CatalogTool{newTool(t.Info()), newAbout(reg, t, inside)})
		if box, ok := reg.Toolbox(t.Info().Name); ok {
			count[box.Info().Name]++
		}
	}
	for _, b := range reg.Toolboxes() {
		info := b.Info()
		c.Servers = append(c.Servers, CatalogServer{info.Name, info.Description, newAbout(reg, b, inside), count[info.Name]})
	}
	return c
}

// NewCatalogWorkflows returns the registry's workflows.
func NewCatalogWorkflows(reg *host.Registry, inside bool) CatalogWorkflows {
	c := CatalogWorkflows{[]CatalogWorkflow{}}
	for _, w := range reg.Workflows() {
		c.Workflows = append(c.Workflows, CatalogWorkflow{NewWorkflow(w), newAbout(reg, w, inside)})
	}
	return c
}

func newAbout(reg *host.Registry, p plugins.Plugin, inside bool) About {
	o := reg.Origin(p)
	a := About{Origin: Origin{Kind: o.Kind, Server: orNull(o.Server)}}
	h := reg.Health(p)
	if h != nil {
		a.Health = &Health{OK: h.OK}
		if !h.Since.IsZero() {
			a.Health.Since = stampOrNull(&h.Since)
		}
	}
	if !inside {
		return a
	}
	a.Origin.File, a.Origin.URL = orNull(o.File), orNull(o.URL)
	if o.Line > 0 {
		a.Origin.Line = &o.Line
	}
	if h != nil {
		a.Health.Detail = orNull(h.Detail)
	}
	return a
}
