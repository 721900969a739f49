package wire

import (
	"encoding/json"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
)

// Agents is what a server offers to run, by name, and the tools that its agents may call.
type Agents struct {
	Agents []Agent `json:"agents"`
	Tools  []Tool  `json:"tools"`
}

// Agent is what a client learns of an agent.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Tool is what a client learns of a tool.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // null admits any object
	Idempotent  bool            `json:"idempotent"`
	Approval    bool            `json:"approval"` // a person is asked before each call
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

// Workflows is what a server offers to run, by name.
type Workflows struct {
	Workflows []Workflow `json:"workflows"`
}

// Workflow is what a client learns of a workflow.
type Workflow struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Nodes       []WorkflowNode `json:"nodes"`
}

// WorkflowNode is what a client learns of a node: what it runs, after which others, and when.
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

// NewWorkflow returns a workflow as clients learn of it.
func NewWorkflow(w plugins.Workflow) Workflow {
	nodes := make([]WorkflowNode, len(w.Nodes))
	for i, n := range w.Nodes {
		nodes[i] = WorkflowNode{n.ID, orNull(n.Agent), orNull(n.Tool), list(n.Needs), orNull(n.When)}
	}
	return Workflow{w.Name, w.Description, nodes}
}
