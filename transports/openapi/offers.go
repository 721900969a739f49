package openapi

import "github.com/batonrun/baton/transports/wire"

// offers describes the routes of agents, tools and workflows.
func (d *describer) offers() {
	s := &d.schemas
	infer[wire.Origin](s, "Origin", "Where a definition comes from. With accounts, only operators and admins see `file`, `line` and `url`.",
		may("kind", choice("The kind of source.", "built-in", "yaml", "mcp", "remote", "process", "program")),
		says("file", "Settings file with the declaration."), says("line", "Line in the file, from 1."), says("server", "The tool server."),
		says("url", "Scheme and host of the endpoint."))
	infer[wire.Health](s, "Health", "Last known health of what an agent or tool depends on. The request itself checks nothing.",
		says("since", "Start of the current state, as far as observed."), says("detail", "What is wrong, for operators."),
		says("ok", "Whether it is healthy."))
	infer[wire.Model](s, "AgentModel", "The model an agent uses.", says("name", "Null for the provider's default model."),
		says("provider", "The provider."))
	about := []member{says("health", "Null without dependencies, or before the first use.")}
	infer[wire.CatalogAgent](s, "Agent", "An agent.", append(about, says("name", "Use it as `agent` in requests."),
		says("model", "Null if unknown."),
		may("tools", orNull(list(text(""), "Tools and agents it may call, as names or patterns. Null if unknown."))))...)
	infer[wire.CatalogTool](s, "Tool", "A tool that agents may call.", append(about,
		may("parameters", orNull(object("JSON Schema of the arguments. Null accepts any object."))),
		says("idempotent", "Whether a call may be repeated safely."),
		says("approval", "Whether each call needs a person's approval."))...)
	infer[wire.CatalogServer](s, "ToolServer", "An MCP server or a program that provides tools.", append(about,
		says("name", "Prefix of the names of its tools."), says("tools", "Current number of its tools."))...)
	infer[wire.Catalog](s, "Agents", "Agents, tools and tool servers, by name.",
		says("agents", "The agents."), says("tools", "The tools."),
		says("servers", "The tool servers."))
	infer[wire.WorkflowNode](s, "WorkflowNode", "A node of a workflow.",
		says("agent", "The agent to run. Either `agent` or `tool` is null."), says("needs", "Nodes that must end before this one."),
		says("when", "Condition for executing the node. Null means always."), says("id", "The node's id."),
		says("tool", "The tool to call. Either `agent` or `tool` is null."))
	infer[wire.CatalogWorkflow](s, "Workflow", "A workflow.", append(about, says("name", "Use it as `workflowId` in requests."))...)
	infer[wire.Workflow](s, "Definition", "The workflow of a run.",
		says("name", "The workflow's name."),
		says("nodes", "The nodes."))
	infer[wire.CatalogWorkflows](s, "Workflows", "Workflows, by name.")

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
