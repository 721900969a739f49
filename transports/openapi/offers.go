package openapi

import "github.com/batonrun/baton/transports/wire"

// offers describes what a server has to run.
func (d *describer) offers() {
	s := &d.schemas
	infer[wire.Agent](s, "Agent", "An agent.", says("name", "What requests call it."))
	infer[wire.Tool](s, "Tool", "A tool that agents may call.",
		may("parameters", orNull(object("A JSON Schema of its arguments; null admits any object."))),
		says("idempotent", "A call may be made twice."),
		says("approval", "A person is asked before each call."))
	infer[wire.Agents](s, "Agents", "The agents and tools, by name.")
	infer[wire.WorkflowNode](s, "WorkflowNode", "A node of a workflow.",
		says("agent", "The agent that it runs; one of agent and tool is null."),
		says("needs", "The nodes that it comes after."),
		says("when", "The condition under which it runs; null means always."))
	infer[wire.Workflow](s, "Workflow", "A workflow.", says("name", "What requests call it."))
	infer[wire.Workflows](s, "Workflows", "The workflows, by name.")

	d.area("Agents", "What this server has to run.")
	d.add("GET /api/v1/agents", operation{
		ID: "listAgents", Summary: "List the agents, and the tools that they may call",
		Answers: answers{"200": reply("All of them.", ref("Agents"), "agents")},
	})
	d.add("GET /api/v1/workflows", operation{
		ID: "listWorkflows", Summary: "List the workflows",
		Answers: answers{"200": reply("All of them.", ref("Workflows"), "workflows")},
	})
}
