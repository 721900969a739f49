package openapi

import "github.com/google/jsonschema-go/jsonschema"

// joined is the answer that shows a thread as it is, then what happens.
func joined() *answer {
	a := aguiStream("RUN_STARTED, STATE_SNAPSHOT, MESSAGES_SNAPSHOT and what is open, opened again, without " +
		"ids; then the log behind it, " +
		"until the thread is not busy. Of a thread that nobody knows: empty.")
	m := a.Content[asStream]
	m.Example = sample("join.sse")
	a.Content[asStream] = m
	return a
}

// agui describes the door for AG-UI clients.
func (d *describer) agui() {
	const agent = "/api/v1/agui/{agent}"
	d.area("AG-UI", "For unmodified AG-UI clients: `new HttpAgent({url: \"…/api/v1/agui/echo\"})`. Both "+
		"dialects are spoken.")
	d.add("POST "+agent, operation{
		ID: "runAgent", Summary: "Run an agent and watch it",
		Description: "As `POST /api/v1/agent/runs` with `Accept: text/event-stream`: the run belongs to its connection.",
		Parameters:  []parameter{projectParam, keyHeader},
		Body:        accept(ref("RunRequest"), "start-agui"),
		Answers:     startAnswers(answers{"200": aguiStream("The run's events.")}),
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

// capabilities is what AG-UI's AgentCapabilities say of an agent.
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
