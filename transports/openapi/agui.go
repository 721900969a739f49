package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/transports/wire"
)

// joined returns the answer with a thread's current state and its new events.
func joined() *answer {
	a := aguiStream("RUN_STARTED, STATE_SNAPSHOT, MESSAGES_SNAPSHOT and the start events of everything still open, without ids. The log follows until " +
		"the thread is not busy. The stream of an unknown thread is empty.")
	m := a.Content[asStream]
	m.Example = sample("join.sse")
	a.Content[asStream] = m
	return a
}

// hydrated returns the answer with a thread in parts, or with the events of a run.
func hydrated() *answer {
	run := object("", must("runId", runID))
	part := object("A part. Its type determines its members.",
		must("type", choice("The kind of part.", "text", "thinking", "tool-call", "tool-result", "image", "audio", "video", "document")),
		may("content", text("The text.")),
		may("source", object("Where a media part's bytes are.",
			must("type", text("The form of `value`.")), must("value", text("Base64 data, a URL, or a provider's file handle.")),
			may("mimeType", text("Media type.")),
			may("provider", text("The provider of the handle.")))),
		may("id", text("Id of the call.")), may("name", text("The called tool.")), may("arguments", text("The arguments, as a JSON text.")),
		may("input", anything("The arguments.")), may("output", anything("Result of the call.")),
		may("approval", object("The approval requested for the call.",
			must("id", text("Id of the interrupt.")),
			must("needsApproval", flag("Whether the call waits for approval.")))),
		may("toolCallId", text("The call of a result.")), may("state", text("State of a call or a result.")), may("error", text("Why the call failed.")))
	a := reply("The thread, or with `runId` the run's events.", object("",
		must("messages", list(object("A message in parts, in TanStack AI's form.",
			must("id", text("The message id.")), must("role", choice("The author's role.", "user", "assistant", "system")),
			must("parts", list(part, "The parts.")),
			may("createdAt", &jsonschema.Schema{Type: "string", Format: "date-time"}), may("metadata", object(""))), "The messages.")),
		must("state", object("The thread's state.")), must("activeRun", orNull(run)),
		must("interrupts", orNull(object("What the thread's run waits for.",
			must("runId", runID),
			must("pending", list(object("An interrupt."), "The open interrupts."))))),
		must("page", object("",
			must("truncated", flag("Whether the thread has earlier messages.")),
			may("cursor", text("`before` of the previous page."))))))
	a.Content[asStream] = aguiStream("").Content[asStream]
	return a
}

// agui describes the routes for AG-UI clients.
func (d *describer) agui() {
	const agent = "/api/v1/agui/{agent}"
	size := within(1, wire.MaxLimit, 0, "Maximum number of messages. Default: as many as fit.")
	d.area("AG-UI", "For unmodified AG-UI clients: `new HttpAgent({url: \"…/api/v1/agui/echo\"})`. Both dialects are supported.")
	d.add("POST "+agent, operation{
		ID: "runAgent", Summary: "Run an agent",
		Description: "Like `POST /api/v1/agent/runs` with `Accept: text/event-stream`: the run belongs to its connection.",
		Parameters: []parameter{
			projectParam, keyHeader,
			inHeader("Last-Event-ID", text("For a repeated request: the last event received. The run's events continue after it.")),
		},
		Body:    accept(ref("RunRequest"), "start-agui"),
		Answers: startAnswers(answers{"200": aguiStream("The run's events.")}),
	})
	d.add("GET "+agent, operation{
		ID: "lookAtAgent", Summary: "Get a thread, or stream a run",
		Description: "For TanStack AI clients. With `threadId`, returns the thread in parts; the output of its active run is left to the run's events. " +
			"With `runId`, streams the run's events after `offset`, while the run is queued or running.",
		Parameters: []parameter{
			query("threadId", text("The thread. An unknown thread is empty.")),
			query("limit", size), query("before", text("A message id. Returns the messages before it.")),
			query("runId", text("The run, by any of its names.")),
			query("offset", text("The stream begins after the event with this id. -1 for all events.")),
			query("protocolVersion", text("The client's AG-UI version, as in `RunRequest`.")), lastEventID, polyfillID, projectParam,
		},
		Answers: answers{
			"200": hydrated(),
			"400": refuse("Invalid query parameter.", "invalid_request", "Give threadId or runId, and not both", "invalid_cursor",
				"offset must be the id of an event, or -1", "invalid_limit", "limit must be a number from 1 to 500",
				"unknown_message", "The thread has no message of the id that before names", "invalid_name",
				"A threadId is needed; threadId and runId must be 1 to 200 characters without control characters"),
			"404": refuse("The agent or run does not exist.", "not_found", "Agent run not found", "unknown_agent", "There is no agent or workflow \"nobody\""),
		},
	})
	d.add("POST "+agent+"/connect", operation{
		ID: "connectAgent", Summary: "Connect to a thread", Parameters: []parameter{projectParam},
		Body: accept(ref("RunRequest"), "connect"),
		Answers: answers{
			"200": joined(),
			"400": refuse("Invalid request body.", "invalid_json", "The request body is not valid JSON", "invalid_name",
				"A threadId is needed; threadId and runId must be 1 to 200 characters without control characters"),
		},
	})
	d.schemas.name("Capabilities", capabilities())
	d.add("GET "+agent+"/capabilities", operation{
		ID: "getCapabilities", Summary: "Get an agent's capabilities",
		Answers: answers{"200": reply("AG-UI's AgentCapabilities. Absent members are unknown.", ref("Capabilities"))},
	})
}

// capabilities returns the schema of AG-UI's AgentCapabilities.
func capabilities() *jsonschema.Schema {
	described := func(list ...member) []member {
		return append([]member{must("name", text("The name."))}, list...)
	}
	return object("What an agent can do.",
		must("identity", object("The agent.", described(must("type", text("The kind of agent.")), may("description", text("What the agent does.")))...)),
		must("transport", object("How clients can talk to the agent.",
			must("streaming", flag("Events are streamed.")), must("websocket", flag("WebSocket is supported.")),
			must("httpBinary", flag("AG-UI's binary protocol is supported.")),
			must("pushNotifications", flag("Push notifications are supported.")),
			must("resumable", flag("Streams can be resumed: event ids are cursors of the thread's log.")))),
		must("tools", object("The agent's tools.",
			must("items", list(object("", described(
				must("description", text("What the tool does.")), may("parameters", anything("JSON Schema of the arguments.")))...), "The tools.")))),
		must("state", object("How state is sent and kept.",
			must("snapshots", flag("State is sent as snapshots.")), must("deltas", flag("State is sent as deltas.")),
			must("persistentState", flag("State is kept between runs.")))),
		may("multiAgent", object("The agent's sub-agents.", must("supported", flag("The agent has sub-agents.")),
			must("subagents", list(object("", described(may("description", text("What the sub-agent does.")))...), "The sub-agents.")))),
		may("execution", object("Execution limits.", must("maxExecutionTime", count("Milliseconds.")))),
		must("humanInTheLoop", object("How people take part.", must("supported", flag("People can take part.")),
			must("approvals", flag("Tool calls can need approval.")), must("interrupts", flag("Runs can wait for answers.")),
			must("approveWithEdits", flag("An approval may change the call's arguments.")))),
	)
}
