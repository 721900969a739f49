package wire

import (
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// Catalog is all agents, tools and tool servers, by name.
type Catalog struct {
	Agents  []CatalogAgent  `json:"agents"`  // The agents.
	Tools   []CatalogTool   `json:"tools"`   // The tools.
	Servers []CatalogServer `json:"servers"` // The tool servers.
}

// CatalogAgent is an agent.
type CatalogAgent struct {
	Agent
	About

	Model *Model   `json:"model"` // Null if unknown.
	Tools []string `json:"tools"` // Tools and agents it may call, as names or patterns. Null if unknown.
}

// CatalogTool is a tool that agents may call.
type CatalogTool struct {
	Tool
	About
}

// CatalogServer is an MCP server or a program that provides tools.
type CatalogServer struct {
	Name        string `json:"name"` // Prefix of the names of its tools.
	Description string `json:"description"`
	About

	Tools int `json:"tools"` // Current number of its tools.
}

// CatalogWorkflows are all workflows, by name.
type CatalogWorkflows struct {
	Workflows []CatalogWorkflow `json:"workflows"`
}

// CatalogWorkflow is a workflow.
type CatalogWorkflow struct {
	Workflow
	About
}

// About is the origin and the health of a plugin.
type About struct {
	Origin Origin  `json:"origin"`
	Health *Health `json:"health"` // Null without dependencies, or before the first use.
}

// Origin is where a definition comes from. With accounts, only operators and admins see `file`, `line` and `url`.
type Origin struct {
	Kind   string  `json:"kind" enum:"built-in,yaml,mcp,remote,process,program"` // The kind of source.
	File   *string `json:"file"`                                                 // Settings file with the declaration.
	Line   *int    `json:"line"`                                                 // Line in the file, from 1.
	Server *string `json:"server"`                                               // The tool server.
	URL    *string `json:"url"`                                                  // Scheme and host of the endpoint.
}

// Health is the last known health of what an agent or tool depends on. The request itself checks nothing.
type Health struct {
	OK     bool       `json:"ok"`     // Whether it is healthy.
	Since  *time.Time `json:"since"`  // Start of the current state, as far as observed.
	Detail *string    `json:"detail"` // What is wrong, for operators.
}

// Model is the model an agent uses.
type Model struct {
	Provider string  `json:"provider"` // The provider.
	Name     *string `json:"name"`     // Null for the provider's default model.
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
