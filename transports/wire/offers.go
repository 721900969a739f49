package wire

import (
	"encoding/json"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// Agents lists the offered agents and workflows by name, and the tools of the agents.
type Agents struct {
	Agents []Agent `json:"agents"`
	Tools  []Tool  `json:"tools"`
}

// Agent is an agent's public description.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Tool is a tool's public description.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // null admits any object
	Idempotent  bool            `json:"idempotent"`
	Approval    bool            `json:"approval"` // a person approves each call
}

// NewAgents returns the registry's agents and tools.
func NewAgents(reg *host.Registry) Agents {
	offers := Agents{Agents: []Agent{}, Tools: []Tool{}}
	for _, a := range reg.Agents() {
		offers.Agents = append(offers.Agents, newAgent(a.Info()))
	}
	for _, t := range reg.Tools() {
		offers.Tools = append(offers.Tools, newTool(t.Info()))
	}
	return offers
}

func newAgent(info plugins.Info) Agent { return Agent{info.Name, info.Description} }

func newTool(info plugins.Info) Tool {
	return Tool{info.Name, info.Description, info.Parameters, info.Idempotent, info.Approval}
}

// Workflows lists the offered workflows by name.
type Workflows struct {
	Workflows []Workflow `json:"workflows"`
}

// Workflow is a workflow's public description.
type Workflow struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Nodes       []WorkflowNode `json:"nodes"`
}

// WorkflowNode is a node: its agent, its predecessors and its condition.
type WorkflowNode struct {
	ID    string   `json:"id"`
	Agent *string  `json:"agent"` // one of agent and tool is null
	Tool  *string  `json:"tool"`
	Needs []string `json:"needs"`
	When  *string  `json:"when"` // null means always
}

// NewWorkflows returns the registry's workflows.
func NewWorkflows(reg *host.Registry) Workflows {
	offers := Workflows{Workflows: []Workflow{}}
	for _, w := range reg.Workflows() {
		offers.Workflows = append(offers.Workflows, NewWorkflow(w))
	}
	return offers
}

// NewWorkflow returns a workflow's public description.
func NewWorkflow(w plugins.Workflow) Workflow {
	nodes := make([]WorkflowNode, len(w.Nodes))
	for i, n := range w.Nodes {
		nodes[i] = WorkflowNode{n.ID, orNull(n.Agent), orNull(n.Tool), list(n.Needs), orNull(n.When)}
	}
	return Workflow{w.Name, w.Description, nodes}
}
