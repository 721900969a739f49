package rest

import (
	"encoding/json"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/plugins"
)

// agent is what a client learns of an agent.
type agent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// tool is what a client learns of a tool.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // null admits any object
	Idempotent  bool            `json:"idempotent"`
	Approval    bool            `json:"approval"` // a person is asked before each call
}

// agents answers GET agents: the agents, and the tools that they may call, by name.
func (t Transport) agents(c *fiber.Ctx) error {
	answer := struct {
		Agents []agent `json:"agents"`
		Tools  []tool  `json:"tools"`
	}{[]agent{}, []tool{}}
	for _, a := range t.Runtime.Plugins().Agents() {
		info := a.Info()
		answer.Agents = append(answer.Agents, agent{info.Name, info.Description})
	}
	for _, p := range t.Runtime.Plugins().Tools() {
		info := p.Info()
		answer.Tools = append(answer.Tools, tool{
			info.Name, info.Description, info.Parameters, info.Idempotent, info.Approval,
		})
	}
	return c.JSON(answer)
}

// workflow is what a client learns of a workflow.
type workflow struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Nodes       []node `json:"nodes"`
}

// node is what a client learns of a node: what it runs, after which others, and when.
type node struct {
	ID    string   `json:"id"`
	Agent *string  `json:"agent"` // one of agent and tool is null
	Tool  *string  `json:"tool"`
	Needs []string `json:"needs"`
	When  *string  `json:"when"` // null means always
}

// workflows answers GET workflows, by name.
func (t Transport) workflows(c *fiber.Ctx) error {
	answer := struct {
		Workflows []workflow `json:"workflows"`
	}{[]workflow{}}
	for _, w := range t.Runtime.Plugins().Workflows() {
		answer.Workflows = append(answer.Workflows, workflow{w.Name, w.Description, nodesOf(w)})
	}
	return c.JSON(answer)
}

func nodesOf(w plugins.Workflow) []node {
	nodes := make([]node, len(w.Nodes))
	for i, n := range w.Nodes {
		nodes[i] = node{
			ID: n.ID, Agent: orNull(n.Agent), Tool: orNull(n.Tool), Needs: append([]string{}, n.Needs...), When: orNull(n.When),
		}
	}
	return nodes
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
