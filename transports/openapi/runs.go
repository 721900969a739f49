package openapi

// The parameters that several operations share.
var (
	cursorParam  = query("cursor", text("The `nextCursor` of the previous page. The filters must be the same as for that page."))
	limitParam   = query("limit", within(1, 500, 50, "Maximum number of items in the page."))
	userParam    = query("user", text("The owner of the run. Needed when you may see other users' runs and several users have a run of this name."))
	projectParam = query("projectId", text("The project. Overrides the project of the body and of the credential."))
	countParam   = query("count", flag("Count the whole list and return the number in `total`."))
	keyHeader    = inHeader("Idempotency-Key", text("1 to 255 visible ASCII characters. Repeating a request with the same key and body within 24 hours "+
		"returns the first response. The same key with another body returns 409."))
)

// runs describes runs as resources.
func (d *describer) runs() {
	const (
		runs = "/api/projects/{projectId}/agent-runs"
		run  = runs + "/{runId}"
	)
	d.area("Runs", "Runs as resources: list, get, answer, cancel, rerun and delete them. A run is QUEUED, RUNNING, WAITING (for an answer), COMPLETED, "+
		"FAILED or CANCELLED.")
	d.add("GET "+runs, operation{
		ID: "listRuns", Summary: "List runs",
		Description: "Returns the newest runs first. A list with one filter and a time range costs only what its page shows. With several filters the " +
			"database may read more runs than it returns; after 5 s the response is 503 `too_slow`. A run is found by its answer, its error and a later " +
			"title of its thread within seconds of its end. With `q`, `tag` or `metadata.<name>`, runs are ordered by the time they started.",
		Parameters: []parameter{
			query("status", text("Only runs with one of these statuses. Separate several with commas, or repeat the parameter.")),
			query("agent", text("Only runs of this agent.")),
			query("workflowId", text("Only runs of this workflow.")),
			query("threadId", name("Only runs of this thread.")),
			query("since", moment("Only runs created at or after this time.")),
			query("until", moment("Only runs created before this time.")),
			query("q", text("Only runs that contain all these words, ignoring case. Searches the id, the threadId, the thread's title, the input, the "+
				"answer and the error. The last word may be a prefix. An exact run id returns that run immediately; a conversationId returns all runs of the "+
				"thread.")),
			query("tag", text("Only runs with these tags in `metadata.tags`. Separate several with commas, or repeat the parameter.")),
			query("metadata.name", text("Only runs whose metadata member `name` has this value. Replace `name` in the parameter by the name of any "+
				"member.")),
			query("order", choice("The sort order.", "newest", "oldest")),
			cursorParam, limitParam, countParam, userParam,
		},
		Answers: answers{"200": reply("A page of runs.", ref("RunPage"), "runs")},
	})
	d.add("POST "+runs, operation{
		ID: "createRun", Summary: "Create a run",
		Description: "Starts a run like `POST /api/v1/agent/runs`, but always returns JSON. The run does not depend on the connection: only a cancel " +
			"request stops it.",
		Parameters: []parameter{keyHeader},
		Body:       accept(ref("RunRequest"), startExamples...),
		Answers:    startAnswers(answers{"202": reply("The run was accepted.", ref("Started"), "started")}),
	})
	d.add("GET "+run, operation{
		ID: "getRun", Summary: "Get a run", Parameters: []parameter{userParam},
		Answers: answers{"200": reply("The run.", ref("Run"), "run")},
	})
	d.add("DELETE "+run, operation{
		ID: "deleteRun", Summary: "Delete a run", Parameters: []parameter{userParam},
		Description: "Deletes a finished run with its events and messages. Event ids are not reused. Readers that reach the gap get a `log-reset` " +
			"event.",
		Answers: answers{
			"204": nothing("The run was deleted."),
			"400": refuse("The run has not finished.", "invalid_state", "Run cannot be deleted. Current status: RUNNING"),
		},
	})
	d.add("GET "+run+"/definition", operation{
		ID: "getDefinition", Summary: "Get a run's workflow definition",
		Description: "Returns the workflow as it was when the run started. For a run of a single agent the definition has one node.",
		Parameters:  []parameter{userParam},
		Answers:     answers{"200": reply("The workflow.", ref("Definition"), "definition")},
	})
	d.add("GET "+run+"/steps", operation{
		ID: "listSteps", Summary: "List a run's steps", Description: "Each item of a node's map is a step of its own.",
		Parameters: []parameter{query("nodeId", text("Only the steps of this node.")), cursorParam, limitParam, userParam},
		Answers:    answers{"200": reply("A page of steps, ordered by number.", ref("StepPage"), "steps")},
	})
	d.add("GET "+run+"/node-states", operation{
		ID: "listNodeStates", Summary: "List a run's node states", Parameters: []parameter{userParam},
		Answers: answers{"200": reply("The states of all nodes.", ref("NodeStates"), "node-states")},
	})
	d.add("GET "+run+"/model-calls", operation{
		ID: "listModelCalls", Summary: "List a run's model calls",
		Description: "Returns the calls in the order they started. A call is listed from its start. Retries, calls of a fallback model and summaries " +
			"are separate calls.",
		Parameters: []parameter{cursorParam, limitParam, userParam},
		Answers:    answers{"200": reply("A page of model calls.", ref("ModelCallPage"), "model-calls")},
	})
	d.add("GET "+run+"/model-calls/{callId}", operation{
		ID: "getModelCall", Summary: "Get a model call",
		Description: "Returns the call with its prompt and the model's answer. Tools, calls and results have their names and ids of the log. Files are " +
			"described without their bytes. Only operators and admins see the instructions, tools and parameters; other roles see their sizes. If a " +
			"prompt exceeds 8 MiB, its first messages are left out and `changes` says so.",
		Parameters: []parameter{userParam},
		Answers: answers{
			"200": reply("The model call.", ref("WholeModelCall"), "model-call"),
			"404": refuse("The run does not exist or is not visible to you, or it has no such model call.", "model_call_not_found", "The run has made no such call of a model"),
		},
	})
	d.add("GET "+run+"/messages", operation{
		ID: "listMessages", Summary: "List a run's messages",
		Parameters: []parameter{cursorParam, limitParam, userParam},
		Answers:    answers{"200": reply("A page of messages, in the order they were added.", ref("MessagePage"), "messages")},
	})
	d.add("POST "+run+"/messages", operation{
		ID: "appendMessage", Summary: "Append a user message to a run",
		Description: "A RUNNING run receives the message at its next safe boundary. A WAITING run receives it together with the answer. A COMPLETED or " +
			"FAILED run restarts.",
		Parameters: []parameter{userParam, keyHeader},
		Body:       accept(ref("AppendRequest"), "append"),
		Answers: answers{
			"201": reply("The message.", ref("Message"), "message"),
			"400": refuse("Invalid request body, or the run is cancelled.",
				"invalid_state", "Run cannot accept messages. Current "+
					"status: CANCELLED", "invalid_content", "Message content must not be empty"),
			"409": refuse("The Idempotency-Key was used with another body.", "idempotency_mismatch", "This Idempotency-Key "+
				"was used with another body"),
			"413": refuse("The body or the message is too large.", "body_too_large",
				"The request's body is too large", "content_too_large", "A message may hold 1048576 bytes"),
			"429": usual("Overloaded"),
		},
	})
	d.add("POST "+run+"/cancel", operation{
		ID: "cancelRun", Summary: "Cancel a run", Parameters: []parameter{userParam},
		Description: "After the response, no event of the run follows its terminal event. Cancelling a cancelled run returns the same response again.",
		Answers: answers{
			"200": reply("The run is cancelled.", ref("Cancelled"), "cancelled"),
			"400": refuse("The run has already finished.", "invalid_state", "Run cannot be cancelled. Current status: COMPLETED"),
		},
	})
	d.add("POST "+run+"/events/{name}", operation{
		ID: "sendEvent", Summary: "Send an event to a run",
		Description: "A run that waits for an event of this name goes on. Otherwise the event is kept until a worker of the run waits for it, or the " +
			"run ends. A run receives each event once, those of a name in order. The body is any JSON value up to 1 MiB, `null` if it is empty. `delivered: false` is no failure.",
		Parameters: []parameter{userParam, keyHeader},
		Body:       optional(accept(anything("The payload."), "payload")),
		Answers: answers{
			"202": reply("The event was accepted.", ref("Delivered"), "delivered"),
			"400": refuse("The name is invalid, or the body is not valid JSON.", "invalid_event_name",
				"The name of an event has 1 to 100 letters, digits and _ - . : and begins with a letter, a digit or _",
				"invalid_json", "The request body is not valid JSON"),
			"409": refuse("The run has ended, or the Idempotency-Key was used with another body.", "run_ended", "The run has ended",
				"idempotency_mismatch", "This Idempotency-Key was used with another body"),
			"413": refuse("The body or the payload is too large.", "body_too_large", "The request's body is too large",
				"payload_too_large", "The payload of an event may hold 1048576 bytes"),
			"429": refuse("The run has too many events that it has not received.", "inbox_full", "A run may have 100 events, and 8 MiB of them, that it has not received"),
		},
	})
	d.add("POST "+run+"/rerun", operation{
		ID: "rerunRun", Summary: "Rerun a run",
		Description: "Runs the whole run again, or from a node or a model call, on a new thread of yours. The new run gets the messages, state, tools, " +
			"context and metadata of the original run and the messages before it. Its `metadata.rerunOf` is the id of the original. With `fromNode`, " +
			"nodes that were completed before that node began are not executed again. With `fromCall`, the step of that model call also starts with " +
			"everything it had recorded before the call.",
		Parameters: []parameter{userParam, keyHeader},
		Body:       accept(ref("RerunRequest"), "rerun"),
		Answers: startAnswers(answers{
			"202": reply("The new run was accepted.", ref("Started"), "started"),
			"400": refuse("Invalid request body, or the run has not begun this node or made this model call.", "unknown_node", `The run has begun no node "none"`,
				"unknown_call", "The run has made no such model call in its latest generation",
				"invalid_request", "fromNode must be a string"),
			"404": refuse("The run does not exist or is not visible to you, or its agent, workflow or tool no longer exists.", "not_found", "Run not found"),
			"409": refuse("The run's input was removed.", "input_gone", "The messages that the run was started with are not kept any more"),
		}),
	})
	d.add("GET /api/projects/{projectId}/interrupts", operation{
		ID: "listInterrupts", Summary: "List open interrupts",
		Description: "Returns the open interrupts and pending tool calls of all runs that you may see, oldest first. Each can be answered on its own.",
		Parameters:  []parameter{cursorParam, limitParam, countParam, userParam},
		Answers:     answers{"200": reply("A page of open interrupts.", ref("InterruptPage"), "interrupts")},
	})
	d.add("POST "+run+"/resume", operation{
		ID: "resumeRun", Summary: "Answer a run's interrupts",
		Description: "Answers one or several open interrupts and pending tool calls. The same run continues with the answers. It waits again while " +
			"other interrupts are open.",
		Parameters: []parameter{userParam, keyHeader},
		Body: accept(object("", must("resume", nonempty(list(ref("ResumeEntry"), "One or more answers.")))),
			"resume"),
		Answers: answers{
			"202": reply("The run continues.", ref("Resumed"), "resumed"),
			"400": refuse("Invalid request body or answer.", "invalid_request",
				"resume must hold at least one answer", "unknown_interrupt", `There is no interrupt "i"`,
				"duplicate_answer", `The interrupt "i" is answered twice`),
			"409": refuse("The interrupt is no longer open, or the Idempotency-Key was used with another body.",
				"already_answered", `The interrupt "i" has been answered already`, "interrupt_expired", `The interrupt "i" has expired`,
				"interrupt_cancelled", `The interrupt "i" was cancelled: its step or its run is over`,
				"idempotency_mismatch", "This Idempotency-Key was used with another body"),
		},
	})
}
