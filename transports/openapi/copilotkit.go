package openapi

import "github.com/google/jsonschema-go/jsonschema"

// copilotkit describes CopilotKit's runtime protocol.
func (d *describer) copilotkit() {
	const base = "/api/copilotkit"
	d.kit()
	d.area("CopilotKit", "CopilotKit's runtime protocol: give its front end the `runtimeUrl` `/api/copilotkit`.")
	d.add("GET "+base+"/info", operation{
		ID: "copilotkitInfo", Summary: "Ask what the runtime offers",
		Answers: answers{"200": reply("The agents and workflows, and what is supported.", ref("CopilotKitInfo"))},
	})
	d.add("POST "+base+"/agent/{agent}/run", operation{
		ID: "copilotkitRun", Summary: "Run an agent", Description: "As `POST /api/v1/agui/{agent}`.",
		Parameters: []parameter{projectParam}, Body: accept(ref("RunRequest"), "start-agui"),
		Answers: startAnswers(answers{"200": aguiStream("The run's events.")}),
	})
	d.add("POST "+base+"/agent/{agent}/connect", operation{
		ID: "copilotkitConnect", Summary: "Join a thread",
		Description: "As `POST /api/v1/agui/{agent}/connect`; of a thread that nobody knows, nothing is shown.",
		Parameters:  []parameter{projectParam}, Body: accept(ref("RunRequest"), "start-agui"),
		Answers: answers{"200": joined()},
	})
	d.add("POST "+base+"/agent/{agent}/stop/{thread_id}", operation{
		ID: "copilotkitStop", Summary: "Stop a thread's runs", Parameters: []parameter{projectParam},
		Body:    optional(accept(object("", may("runId", text("Only this run."))))),
		Answers: answers{"200": reply("Whether there was anything to stop.", ref("CopilotKitStopped"), "copilotkit-stopped", "copilotkit-idle")},
	})
	d.add("GET "+base+"/threads", operation{
		ID: "copilotkitThreads", Summary: "List your threads",
		Parameters: []parameter{
			query("agentId", text("Only threads that this agent ran last.")),
			query("includeArchived", flag("Also those that are archived.")), cursorParam, limitParam, projectParam,
		},
		Answers: answers{"200": reply("A page of threads.", ref("CopilotKitThreads"))},
	})
	const thread = base + "/threads/{thread_id}"
	d.add("PATCH "+thread, operation{
		ID: "copilotkitRenameThread", Summary: "Name a thread, or fetch it back from the archive", Parameters: []parameter{projectParam},
		Body: accept(object("", may("name", orNull(text("At most 200 characters."))), may("archived", orNull(flag(""))))),
		Answers: answers{
			"200": reply("The thread, as it is listed.", ref("CopilotKitListedThread")),
			"400": refuse("The body is wrong.", "invalid_request", "name must be a string", "invalid_json",
				"The request body is not valid JSON", "invalid_title",
				"title must be at most 200 characters without control characters"),
		},
	})
	d.add("DELETE "+thread, operation{
		ID: "copilotkitDeleteThread", Summary: "Delete a thread", Parameters: []parameter{projectParam},
		Description: "Runs that are not over are cancelled first.",
		Answers:     answers{"204": nothing("It is deleted.")},
	})
	d.add("POST "+thread+"/{part}", operation{
		ID: "copilotkitArchiveThread", Summary: "Archive a thread", Parameters: []parameter{projectParam},
		Description: "The part is `archive`.",
		Body:        optional(accept(object(""))),
		Answers:     answers{"200": reply("The thread, as it is listed.", ref("CopilotKitListedThread"))},
	})
	d.add("GET "+thread+"/{part}", operation{
		ID: "copilotkitThread", Summary: "Inspect a thread", Parameters: []parameter{projectParam},
		Answers: answers{"200": reply("The part that was asked for.", ref("CopilotKitThread"))},
	})
	d.add("POST "+base, operation{
		ID: "copilotkitSingle", Summary: "All of the above behind one path", Parameters: []parameter{projectParam},
		Body: accept(ref("CopilotKitCall"), "copilotkit-info", "copilotkit-run"),
		Answers: startAnswers(answers{
			"200": aguiStream("The answer of the route that method names.").and(
				reply("", either("", ref("CopilotKitInfo"), ref("CopilotKitStopped"), ref("CopilotKitThreads"), ref("CopilotKitListedThread"), ref("CopilotKitThread")))),
			"400": refuse("The body is wrong, or the method unknown.", "invalid_json", "The request body is not valid JSON",
				"unknown_method", "method must be info, agent/run, agent/connect, agent/stop or resource/request"),
		}),
	})
}

// kit names the schemas of CopilotKit's protocol.
func (d *describer) kit() {
	threads := object("", must("list", flag("")), must("inspect", flag("")),
		must("mutations", flag("")), must("realtimeMetadata", flag("")))
	d.schemas.name("CopilotKitInfo", object("What the runtime offers.",
		must("version", text("That of the runtime whose protocol this is.")), must("mode", constant("sse")),
		must("agents", mapOf(object("", must("name", text("")), must("description", text("")),
			must("className", text("")), must("capabilities", ref("Capabilities"))))),
		must("audioFileTranscriptionEnabled", flag("")), must("a2uiEnabled", flag("")), must("openGenerativeUIEnabled", flag("")),
		must("suggestions", flag("")), must("telemetryDisabled", flag("")), must("threadEndpoints", threads),
		must("singleRoute", object("", must("resourceOperations", flag("")), must("threadEndpoints", threads)))))
	d.schemas.name("CopilotKitStopped", object("Whether there was anything to stop.",
		must("stopped", flag("")), may("message", text("Why nothing was stopped.")),
		may("interrupt", object("What the client sees.",
			must("type", constant("RUN_ERROR")), must("message", text("")), must("code", text(""))))))
	d.schemas.name("CopilotKitThreads", object("A page of threads.",
		must("threads", list(ref("CopilotKitListedThread"), "")),
		must("nextCursor", orNull(text("The `cursor` of the next page, null on the last.")))))
	d.schemas.name("CopilotKitListedThread", object("A thread, as it is listed.",
		must("id", text("")), must("name", orNull(text(""))), must("agentId", text("")),
		must("organizationId", text("")), must("createdById", text("")), must("archived", flag("")),
		must("createdAt", moment("")), must("updatedAt", moment(""))))
	call := object("", must("id", text("")), must("name", text("")), must("args", text("JSON.")))
	message := object("", must("id", text("")), must("role", choice("", roles...)), may("content", anything("")),
		may("toolCalls", list(call, "")), may("toolCallId", text("")))
	d.schemas.name("CopilotKitThread", object("A part of a thread.",
		may("messages", list(message, "")),
		may("events", list(ref("LegacyEvent"), "The latest of the log.")),
		may("state", object("The thread's state."))))
	d.schemas.name("CopilotKitCall", object("What is asked.",
		must("method", choice("", "info", "agent/run", "agent/connect", "agent/stop", "resource/request")),
		may("params", object("", may("agentId", text("")), may("threadId", text("")),
			may("path", text("Of a resource: `/threads` or "+
				"`/threads/{thread_id}`, also with `/{part}`.")), may("httpMethod", choice("", "GET", "PATCH", "POST", "DELETE")))),
		may("body", &jsonschema.Schema{Type: "object", Description: "The body of the route that method names."})))
}
