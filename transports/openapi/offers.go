package openapi

import "github.com/batonrun/baton/transports/wire"

// offers describes the routes of agents, tools and workflows.
func (d *describer) offers() {
	s := &d.schemas
	infer[wire.Origin](s, "Origin")
	infer[wire.Health](s, "Health")
	infer[wire.Model](s, "AgentModel")
	infer[wire.CatalogAgent](s, "Agent", may("tools", orNull(list(text(""), ""))))
	infer[wire.CatalogTool](s, "Tool", may("parameters", orNull(object(""))))
	infer[wire.CatalogServer](s, "ToolServer")
	infer[wire.Catalog](s, "Agents")
	infer[wire.WorkflowNode](s, "WorkflowNode")
	infer[wire.CatalogWorkflow](s, "Workflow")
	infer[wire.Workflow](s, "Definition")
	infer[wire.CatalogWorkflows](s, "Workflows")

	d.area("Agents", "Agents, tools and workflows that this server offers.")
	d.add("GET /api/v1/agents", operation{
		ID: "listAgents", Summary: "List agents and tools",
		Answers: answers{"200": reply("All agents, tools and tool servers.", ref("Agents"), "agents")},
	})
	refused := startAnswers(answers{
		"202": reply("The run was accepted.", ref("Started"), "started"),
		"403": refuse("The role user or viewer may not call tools directly.", "forbidden", "Your role may not call tools by themselves"),
		"404": refuse("The tool or project does not exist.", "unknown_tool", `There is no tool "none"`, "not_found", "Project not found"),
	})
	d.add("POST /api/v1/tools/{tool}/runs", operation{
		ID: "startToolRun", Summary: "Run a tool",
		Description: "Starts a run that consists of one tool call. It is a full run: it can wait for approval, can be cancelled, and is logged. Its " +
			"message is the arguments, its `outputSummary` the tool's result, and its `workflowId` `tool:` plus the tool's name. Arguments that violate " +
			"the tool's schema fail the run with `invalid_arguments`. With accounts, this needs the role operator or admin.",
		Parameters: []parameter{projectParam, keyHeader},
		Body: accept(object("",
			may("arguments", object("Arguments of the call. Default: none.")),
			may("threadId", name("The thread, by a name of your choice. Default: a new thread.")),
			may("runId", name("The run, by a name of your choice. Default: a new name.")),
			may("projectId", text("The project. The query overrides it."))), "start-tool"),
		Answers: refused,
	})
	d.add("GET /api/v1/workflows", operation{
		ID: "listWorkflows", Summary: "List workflows",
		Answers: answers{"200": reply("All workflows.", ref("Workflows"), "workflows")},
	})
}
