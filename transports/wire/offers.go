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
	Name        string `json:"name"` // Use it as `agent` in requests.
	Description string `json:"description"`
}

// Tool is a tool's public description.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of the arguments. Null accepts any object.
	Idempotent  bool            `json:"idempotent"` // Whether a call may be repeated safely.
	Approval    bool            `json:"approval"`   // Whether each call needs a person's approval.
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

// Workflow is the workflow of a run.
type Workflow struct {
	Name        string         `json:"name"` // Use it as `workflowId` in requests.
	Description string         `json:"description"`
	Nodes       []WorkflowNode `json:"nodes"` // The nodes.
}

// WorkflowNode is a node of a workflow.
type WorkflowNode struct {
	ID    string   `json:"id"`    // The node's id.
	Agent *string  `json:"agent"` // The agent to run, or null.
	Tool  *string  `json:"tool"`  // The tool to call, or null. A node without an agent and a tool is a question or a wait.
	Needs []string `json:"needs"` // Nodes that must end before this one.
	When  *string  `json:"when"`  // Condition for executing the node. Null means always.
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
