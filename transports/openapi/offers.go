package openapi

import "github.com/batonrun/baton/transports/wire"

// offers describes the routes of agents, tools and workflows.
func (d *describer) offers() {
	s := &d.schemas
	infer[wire.Origin](s, "Origin", "Where something comes from. Without accounts all of it is told, else `file`, `line` and `url` from the role operator on.",
		may("kind", choice("", "built-in", "yaml", "mcp", "remote", "process", "program")),
		says("file", "The settings file that declares it."),
		says("line", "There, from 1."),
		says("server", "The server of tools."),
		says("url", "Where it is asked: scheme and host."))
	infer[wire.Health](s, "Health", "How something is that it depends on, as it was last seen. Nobody is asked for it now.",
		says("since", "When it became so, as far as it was seen."),
		says("detail", "What is wrong, for those who look after the server."))
	infer[wire.Model](s, "AgentModel", "The model that plays an agent.", says("name", "Null for the provider's default."))
	about := []member{says("health", "Null for what depends on nothing, or was not needed yet.")}
	infer[wire.CatalogAgent](s, "Agent", "An agent.", append(about, says("name", "What requests call it."),
		says("model", "Null when it is not known."),
		may("tools", orNull(list(text(""), "Tools and agents that it may call, names or patterns; null when they are not known."))))...)
	infer[wire.CatalogTool](s, "Tool", "A tool that agents may call.", append(about,
		may("parameters", orNull(object("A JSON Schema of its arguments; null admits any object."))),
		says("idempotent", "A call may be made twice."),
		says("approval", "A person is asked before each call."))...)
	infer[wire.CatalogServer](s, "ToolServer", "An MCP server, or a program, that has tools.", append(about,
		says("name", "The front of its tools' names."), says("tools", "How many it has now."))...)
	infer[wire.Catalog](s, "Agents", "The agents, tools and servers of tools, by name.")
	infer[wire.WorkflowNode](s, "WorkflowNode", "A node of a workflow.",
		says("agent", "The agent that it runs; one of agent and tool is null."),
		says("needs", "The nodes that it comes after."),
		says("when", "The condition under which it runs; null means always."))
	infer[wire.CatalogWorkflow](s, "Workflow", "A workflow.", append(about, says("name", "What requests call it."))...)
	infer[wire.Workflow](s, "Definition", "A workflow as a run has it.")
	infer[wire.CatalogWorkflows](s, "Workflows", "The workflows, by name.")

	d.area("Agents", "What this server has to run.")
	d.add("GET /api/v1/agents", operation{
		ID: "listAgents", Summary: "List the agents, the tools that they may call, and the servers of tools",
		Answers: answers{"200": reply("All of them.", ref("Agents"), "agents")},
	})
	refused := startAnswers(answers{
		"202": reply("The run was taken.", ref("Started"), "started"),
		"403": refuse("It is not for users and viewers.", "forbidden", "Your role may not call tools by themselves"),
		"404": refuse("There is no such tool or project.", "unknown_tool", `There is no tool "none"`, "not_found", "Project not found"),
	})
	d.add("POST /api/v1/tools/{tool}/runs", operation{
		ID: "startToolRun", Summary: "Try a tool: start a run that is one call of it",
		Description: "A run as any other: it may wait for an approval, can be cancelled, and is in the log. Its `outputSummary` is the tool's result, its " +
			"`workflowId` `tool:` and the tool's name, and its message the arguments. Arguments that the tool does not take fail the run with `invalid_arguments`. " +
			"With accounts it is for operators and admins.",
		Parameters: []parameter{projectParam, keyHeader},
		Body: accept(object("",
			may("arguments", object("What the tool is called with. Absent: nothing.")),
			may("threadId", name("The thread, a name of your own. Absent: a new one.")),
			may("runId", name("The run: likewise.")),
			may("projectId", text("The project, unless the query names one."))), "start-tool"),
		Answers: refused,
	})
	d.add("GET /api/v1/workflows", operation{
		ID: "listWorkflows", Summary: "List the workflows",
		Answers: answers{"200": reply("All of them.", ref("Workflows"), "workflows")},
	})
}
