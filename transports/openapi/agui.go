package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// joined returns the answer with a thread's current state and its new events.
func joined() *answer {
	a := aguiStream("RUN_STARTED, STATE_SNAPSHOT, MESSAGES_SNAPSHOT and what is open, opened again, without " +
		"ids; then the log behind it, " +
		"until the thread is not busy. Of a thread that nobody knows: empty.")
	m := a.Content[asStream]
	m.Example = sample("join.sse")
	a.Content[asStream] = m
	return a
}

// hydrated returns the answer with a thread in parts, or with the events of a run.
func hydrated() *answer {
	run := object("", must("runId", runID))
	part := object("A part; its type says which members it has.",
		must("type", choice("", "text", "thinking", "tool-call", "tool-result", "image", "audio", "video", "document")),
		may("content", text("")), may("source", object("Where a media part's bytes are.", must("type", text("")), must("value", text("")), may("mimeType", text("")), may("provider", text("")))),
		may("id", text("Of a call.")), may("name", text("Of its tool.")), may("arguments", text("As JSON.")), may("input", anything("The arguments.")),
		may("output", anything("The call's result.")), may("approval", object("What is asked about the call.", must("id", text("")), must("needsApproval", flag("")))),
		may("toolCallId", text("The call that a result is of.")), may("state", text("Of a call or a result.")), may("error", text("")))
	a := reply("The thread; for `runId` the run's events.", object("",
		must("messages", list(object("A message in parts, as TanStack AI keeps it.",
			must("id", text("")), must("role", choice("", "user", "assistant", "system")), must("parts", list(part, "")),
			may("createdAt", &jsonschema.Schema{Type: "string", Format: "date-time"}), may("metadata", object(""))), "")),
		must("state", object("The thread's state.")),
		must("activeRun", orNull(run)),
		must("interrupts", orNull(object("What the thread's run waits for.", must("runId", runID), must("pending", list(object("An interrupt."), ""))))),
		must("page", object("", must("truncated", flag("The thread has messages before these.")), may("cursor", text("`before` of the page before."))))))
	a.Content[asStream] = aguiStream("").Content[asStream]
	return a
}

// agui describes the routes for AG-UI clients.
func (d *describer) agui() {
	const agent = "/api/v1/agui/{agent}"
	size := within(1, wire.MaxLimit, 0, "Absent: as many as fit.")
	d.area("AG-UI", "For unmodified AG-UI clients: `new HttpAgent({url: \"…/api/v1/agui/echo\"})`. Both "+
		"dialects are spoken.")
	d.add("POST "+agent, operation{
		ID: "runAgent", Summary: "Run an agent and watch it",
		Description: "As `POST /api/v1/agent/runs` with `Accept: text/event-stream`: the run belongs to its connection.",
		Parameters:  []parameter{projectParam, keyHeader, inHeader("Last-Event-ID", text("Of a request that is sent again: the last event that its client has got. Its run is shown behind it."))},
		Body:        accept(ref("RunRequest"), "start-agui"),
		Answers:     startAnswers(answers{"200": aguiStream("The run's events.")}),
	})
	d.add("GET "+agent, operation{
		ID: "lookAtAgent", Summary: "Load a thread, or follow a run",
		Description: "As TanStack AI's clients do. With `threadId` the answer is the thread, in parts: what its active run has written is left to that " +
			"run's events. With `runId` it is an event stream of that run, which joins its thread: the run's events behind `offset`, as long as it is queued or running.",
		Parameters: []parameter{
			query("threadId", text("The thread; one that nobody knows is empty.")),
			query("limit", size), query("before", text("A message's id: those before it.")),
			query("runId", text("The run, by any of its names.")),
			query("offset", text("The id of the event behind which the stream begins, -1 for all of it.")),
			query("protocolVersion", text("AG-UI's, as in a request for a run.")), lastEventID, polyfillID, projectParam,
		},
		Answers: answers{
			"200": hydrated(),
			"400": refuse("A parameter is wrong.", "invalid_request", "Give threadId or runId, and not both", "invalid_cursor",
				"offset must be the id of an event, or -1", "invalid_limit", "limit must be a number from 1 to 500",
				"unknown_message", "The thread has no message of the id that before names", "invalid_name",
				"A threadId is needed; threadId and runId must be 1 to 200 characters without control characters"),
			"404": refuse("There is no such agent or run.", "not_found", "Agent run not found", "unknown_agent", "There is no agent or workflow \"nobody\""),
		},
	})
	d.add("POST "+agent+"/connect", operation{
		ID: "connectAgent", Summary: "Join a thread", Parameters: []parameter{projectParam},
		Body: accept(ref("RunRequest"), "connect"),
		Answers: answers{
			"200": joined(),
			"400": refuse("The body is wrong.", "invalid_json", "The request body is not valid JSON", "invalid_name",
				"A threadId is needed; threadId and runId must be 1 to 200 characters without control characters"),
		},
	})
	d.schemas.name("Capabilities", capabilities())
	d.add("GET "+agent+"/capabilities", operation{
		ID: "getCapabilities", Summary: "Ask what an agent can do",
		Answers: answers{"200": reply("AG-UI's AgentCapabilities. What is left out is unknown.", ref("Capabilities"))},
	})
}

// capabilities returns the schema of AG-UI's AgentCapabilities.
func capabilities() *jsonschema.Schema {
	described := func(list ...member) []member {
		return append([]member{must("name", text(""))}, list...)
	}
	return object("What an agent can do.",
		must("identity", object("", described(must("type", text("")), may("description", text("")))...)),
		must("transport", object("",
			must("streaming", flag("")), must("websocket", flag("")), must("httpBinary", flag("")), must("pushNotifications", flag("")),
			must("resumable", flag("The events' ids are cursors of the thread's log.")))),
		must("tools", object("",
			must("items", list(object("", described(
				must("description", text("")), may("parameters", anything("A JSON Schema.")))...), "")))),
		must("state", object("", must("snapshots", flag("")), must("deltas", flag("")), must("persistentState", flag("")))),
		may("multiAgent", object("", must("supported", flag("")),
			must("subagents", list(object("", described(may("description", text("")))...), "")))),
		may("execution", object("", must("maxExecutionTime", count("Milliseconds.")))),
		must("humanInTheLoop", object("", must("supported", flag("")),
			must("approvals", flag("A tool asks before it is called.")), must("interrupts", flag("")),
			must("approveWithEdits", flag("An approval may change the call's arguments.")))),
	)
}
