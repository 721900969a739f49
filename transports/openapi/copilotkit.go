package openapi

import "github.com/google/jsonschema-go/jsonschema"

// copilotkit describes CopilotKit's runtime protocol.
func (d *describer) copilotkit() {
	const base = "/api/copilotkit"
	d.kit()
	d.area("CopilotKit", "CopilotKit's runtime protocol. Set `runtimeUrl` of its front end to `/api/copilotkit`.")
	d.add("GET "+base+"/info", operation{
		ID: "copilotkitInfo", Summary: "Get runtime information",
		Answers: answers{"200": reply("Agents, workflows and supported features.", ref("CopilotKitInfo"))},
	})
	d.add("POST "+base+"/agent/{agent}/run", operation{
		ID: "copilotkitRun", Summary: "Run an agent", Description: "Like `POST /api/v1/agui/{agent}`.",
		Parameters: []parameter{projectParam}, Body: accept(ref("RunRequest"), "start-agui"),
		Answers: startAnswers(answers{"200": aguiStream("The run's events.")}),
	})
	d.add("POST "+base+"/agent/{agent}/connect", operation{
		ID: "copilotkitConnect", Summary: "Connect to a thread",
		Description: "Like `POST /api/v1/agui/{agent}/connect`. The stream of an unknown thread is empty.",
		Parameters:  []parameter{projectParam}, Body: accept(ref("RunRequest"), "start-agui"),
		Answers: answers{"200": joined()},
	})
	d.add("POST "+base+"/agent/{agent}/stop/{thread_id}", operation{
		ID: "copilotkitStop", Summary: "Stop a thread's runs", Parameters: []parameter{projectParam},
		Body:    optional(accept(object("", may("runId", text("Stop only this run."))))),
		Answers: answers{"200": reply("Whether a run was stopped.", ref("CopilotKitStopped"), "copilotkit-stopped", "copilotkit-idle")},
	})
	d.add("GET "+base+"/threads", operation{
		ID: "copilotkitThreads", Summary: "List your threads",
		Parameters: []parameter{
			query("agentId", text("Only threads whose latest run is of this agent.")),
			query("includeArchived", flag("Include archived threads.")), cursorParam, limitParam, projectParam,
		},
		Answers: answers{"200": reply("A page of threads.", ref("CopilotKitThreads"))},
	})
	const thread = base + "/threads/{thread_id}"
	d.add("PATCH "+thread, operation{
		ID: "copilotkitRenameThread", Summary: "Rename or unarchive a thread", Parameters: []parameter{projectParam},
		Body: accept(object("",
			may("name", orNull(text("At most 200 characters, without control characters."))),
			may("archived", orNull(flag("`false` restores an archived thread."))))),
		Answers: answers{
			"200": reply("The updated thread.", ref("CopilotKitListedThread")),
			"400": refuse("Invalid request body.", "invalid_request", "name must be a string", "invalid_json",
				"The request body is not valid JSON", "invalid_title",
				"title must be at most 200 characters without control characters"),
		},
	})
	d.add("DELETE "+thread, operation{
		ID: "copilotkitDeleteThread", Summary: "Delete a thread", Parameters: []parameter{projectParam},
		Description: "Unfinished runs are cancelled first.",
		Answers:     answers{"204": nothing("The thread was deleted.")},
	})
	d.add("POST "+thread+"/{part}", operation{
		ID: "copilotkitArchiveThread", Summary: "Archive a thread", Parameters: []parameter{projectParam},
		Description: "The part must be `archive`.",
		Body:        optional(accept(object(""))),
		Answers:     answers{"200": reply("The archived thread.", ref("CopilotKitListedThread"))},
	})
	d.add("GET "+thread+"/{part}", operation{
		ID: "copilotkitThread", Summary: "Get a part of a thread", Parameters: []parameter{projectParam},
		Answers: answers{"200": reply("The requested part.", ref("CopilotKitThread"))},
	})
	d.add("POST "+base, operation{
		ID: "copilotkitSingle", Summary: "Call any CopilotKit route", Parameters: []parameter{projectParam},
		Body: accept(ref("CopilotKitCall"), "copilotkit-info", "copilotkit-run"),
		Answers: startAnswers(answers{
			"200": aguiStream("The response of the route named by `method`.").and(
				reply("", either("", ref("CopilotKitInfo"), ref("CopilotKitStopped"), ref("CopilotKitThreads"), ref("CopilotKitListedThread"), ref("CopilotKitThread")))),
			"400": refuse("Invalid request body, or unknown method.", "invalid_json", "The request body is not valid JSON",
				"unknown_method", "method must be info, agent/run, agent/connect, agent/stop or resource/request"),
		}),
	})
}

// kit names the schemas of CopilotKit's protocol.
func (d *describer) kit() {
	threads := object("", must("list", flag("Threads can be listed.")), must("inspect", flag("Threads can be inspected.")),
		must("mutations", flag("Threads can be changed.")), must("realtimeMetadata", flag("Changes of metadata are sent live.")))
	d.schemas.name("CopilotKitInfo", object("What the runtime offers.",
		must("version", text("Version of CopilotKit's runtime that the protocol belongs to.")), must("mode", constant("sse")),
		must("agents", mapOf(object("", must("name", text("The name.")), must("description", text("What it does.")),
			must("className", text("The kind of agent.")), must("capabilities", ref("Capabilities"))))),
		must("audioFileTranscriptionEnabled", flag("")), must("a2uiEnabled", flag("")), must("openGenerativeUIEnabled", flag("")),
		must("suggestions", flag("")), must("telemetryDisabled", flag("")), must("threadEndpoints", threads),
		must("singleRoute", object("", must("resourceOperations", flag("")), must("threadEndpoints", threads)))))
	d.schemas.name("CopilotKitStopped", object("Whether a run was stopped.",
		must("stopped", flag("Whether a run was stopped.")), may("message", text("Why nothing was stopped.")),
		may("interrupt", object("The error event for the client to show.",
			must("type", constant("RUN_ERROR")), must("message", text("The error, for people.")), must("code", text("The error code."))))))
	d.schemas.name("CopilotKitThreads", object("A page of threads.",
		must("threads", list(ref("CopilotKitListedThread"), "The threads.")),
		must("nextCursor", orNull(text("The `cursor` of the next page. Null on the last page.")))))
	d.schemas.name("CopilotKitListedThread", object("A thread in a list.",
		must("id", text("The thread's name.")), must("name", orNull(text("The thread's title. Null without a title."))),
		must("agentId", text("The agent of the latest run.")), must("organizationId", text("The project.")),
		must("createdById", text("The thread's owner.")), must("archived", flag("Whether the thread is archived.")),
		must("createdAt", moment("Creation time.")), must("updatedAt", moment("Time of the latest activity."))))
	call := object("", must("id", text("The call's id.")), must("name", text("The tool.")), must("args", text("The arguments, as a JSON text.")))
	message := object("", must("id", text("The message id.")), must("role", choice("The author's role.", roles...)), may("content", anything("")),
		may("toolCalls", list(call, "Assistant messages only.")), may("toolCallId", text("Tool messages only.")))
	d.schemas.name("CopilotKitThread", object("A part of a thread.",
		may("messages", list(message, "The messages.")), may("events", list(ref("LegacyEvent"), "The latest events of the log.")),
		may("state", object("The thread's state."))))
	d.schemas.name("CopilotKitCall", object("A call of one CopilotKit route.",
		must("method", choice("The route.", "info", "agent/run", "agent/connect", "agent/stop", "resource/request")),
		may("params", object("", may("agentId", text("The agent.")), may("threadId", text("The thread.")),
			may("path", text("Path of a resource: `/threads` or `/threads/{thread_id}`, optionally with `/{part}`.")),
			may("httpMethod", choice("HTTP method for a resource.", "GET", "PATCH", "POST", "DELETE")))),
		may("body", &jsonschema.Schema{Type: "object", Description: "Body of the route named by `method`."})))
}
