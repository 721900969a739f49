package openapi

// The parameters that several operations share.
var (
	cursorParam = query("cursor", text("The `nextCursor` of the page before, which was asked for with the same filters."))
	limitParam  = query("limit", within(1, 500, 50, "How many items the page may hold."))
	userParam   = query("user", text("With a role that sees others' runs: whose run this is, where a name "+
		"alone is ambiguous."))
	projectParam = query("projectId", text("The project, instead of the body's or the credential's."))
	countParam   = query("count", flag("Also count the list: see `total`."))
	keyHeader    = inHeader("Idempotency-Key", text("1 to 255 visible characters. The same key and body within "+
		"24 hours get the first answer again; another body gets 409."))
)

// runs describes runs as resources.
func (d *describer) runs() {
	const (
		runs = "/api/projects/{projectId}/agent-runs"
		run  = runs + "/{runId}"
	)
	d.area("Runs", "Runs as resources: list, read, continue, cancel, delete. A run is QUEUED, RUNNING, WAITING "+
		"(for an answer), COMPLETED, FAILED or CANCELLED.")
	d.add("GET "+runs, operation{
		ID: "listRuns", Summary: "List runs, newest first",
		Description: "One filter beside the times costs as much as the page shows. For several of them the database reads more runs than it shows, " +
			"for 5 s at most, then the answer is 503 `too_slow`. By its answer, its error and its thread's later title a run is found some seconds after its end. " +
			"With `q`, `tag` or `metadata.<name>`, runs are in the order of their starts.",
		Parameters: []parameter{
			query("status", text("Only runs of these statuses: several with commas between them, or the parameter several times.")),
			query("agent", text("Only runs of this agent.")),
			query("workflowId", text("Only runs of this workflow.")),
			query("threadId", name("Only runs of this thread.")),
			query("since", moment("Only runs that were created then or later.")),
			query("until", moment("Only runs that were created before.")),
			query("q", text("Only runs with these words in the id, the threadId, the thread's title, the input, the answer or the error, in upper or lower case. "+
				"The last word may be the beginning of one. An exact id finds its run at once; a conversationId, all its runs.")),
			query("tag", text("Only runs with this tag in `metadata.tags`: several with commas between them, or the parameter several times.")),
			query("metadata.name", text("Only runs with this value of a member of their metadata: of `name`, or of any other that the parameter names.")),
			query("order", choice("Which come first.", "newest", "oldest")),
			cursorParam, limitParam, countParam, userParam,
		},
		Answers: answers{"200": reply("A page of runs.", ref("RunPage"), "runs")},
	})
	d.add("POST "+runs, operation{
		ID: "createRun", Summary: "Start a run",
		Description: "As `POST /api/v1/agent/runs`, always answered with JSON: only cancel ends the run.",
		Parameters:  []parameter{keyHeader},
		Body:        accept(ref("RunRequest"), startExamples...),
		Answers:     startAnswers(answers{"202": reply("The run was taken.", ref("Started"), "started")}),
	})
	d.add("GET "+run, operation{
		ID: "getRun", Summary: "Read a run", Parameters: []parameter{userParam},
		Answers: answers{"200": reply("The run.", ref("Run"), "run")},
	})
	d.add("DELETE "+run, operation{
		ID: "deleteRun", Summary: "Delete a run that is over", Parameters: []parameter{userParam},
		Description: "Its events and messages are removed. Ids are not used again; readers that meet the gap " +
			"are told so by `log-reset`.",
		Answers: answers{
			"204": nothing("It is deleted."),
			"400": refuse("It is not over.", "invalid_state", "Run cannot be deleted. Current status: RUNNING"),
		},
	})
	d.add("GET "+run+"/definition", operation{
		ID: "getDefinition", Summary: "Read the workflow that a run was started with",
		Description: "As it was then, whatever it is now. That of an agent's run is one node.",
		Parameters:  []parameter{userParam},
		Answers:     answers{"200": reply("The workflow.", ref("Definition"), "definition")},
	})
	d.add("GET "+run+"/steps", operation{
		ID: "listSteps", Summary: "List the steps of a run, by number",
		Parameters: []parameter{cursorParam, limitParam, userParam},
		Answers:    answers{"200": reply("A page of steps.", ref("StepPage"), "steps")},
	})
	d.add("GET "+run+"/node-states", operation{
		ID: "listNodeStates", Summary: "List the states of a run's nodes", Parameters: []parameter{userParam},
		Answers: answers{"200": reply("All of them.", ref("NodeStates"), "node-states")},
	})
	d.add("GET "+run+"/model-calls", operation{
		ID: "listModelCalls", Summary: "List the calls of models in a run, in the order they began",
		Description: "A call is there from its beginning. A retry, another model after a failure and a summary are calls of their own.",
		Parameters:  []parameter{cursorParam, limitParam, userParam},
		Answers:     answers{"200": reply("A page of calls.", ref("ModelCallPage"), "model-calls")},
	})
	d.add("GET "+run+"/model-calls/{callId}", operation{
		ID: "getModelCall", Summary: "Read what a model was sent, and its answer",
		Description: "Tools, calls and results have their names and ids in the log. A file is described, and its bytes are left out. " +
			"Only operators see the instructions, tools and parameters; others see their size. Of a prompt over 8 MiB the first messages are not shown, which `changes` says.",
		Parameters: []parameter{userParam},
		Answers: answers{
			"200": reply("The call.", ref("WholeModelCall"), "model-call"),
			"404": refuse("There is no such run, or no such call in it.", "model_call_not_found", "The run has made no such call of a model"),
		},
	})
	d.add("GET "+run+"/messages", operation{
		ID: "listMessages", Summary: "List the messages of a run, in the order they came",
		Parameters: []parameter{cursorParam, limitParam, userParam},
		Answers:    answers{"200": reply("A page of messages.", ref("MessagePage"), "messages")},
	})
	d.add("POST "+run+"/messages", operation{
		ID: "appendMessage", Summary: "Append a user message to a run",
		Description: "A run at work gets it at its next safe boundary; a WAITING run takes it with the answer; " +
			"one that is COMPLETED or FAILED restarts.",
		Parameters: []parameter{userParam, keyHeader},
		Body:       accept(ref("AppendRequest"), "append"),
		Answers: answers{
			"201": reply("The message.", ref("Message"), "message"),
			"400": refuse("The body is wrong, or the run is cancelled.",
				"invalid_state", "Run cannot accept messages. Current "+
					"status: CANCELLED", "invalid_content", "Message content must not be empty"),
			"409": refuse("The key was used with another body.", "idempotency_mismatch", "This Idempotency-Key "+
				"was used with another body"),
			"413": refuse("The body or the message is too large.", "body_too_large",
				"The request's body is too large", "content_too_large", "A message may hold 1048576 bytes"),
			"429": usual("Overloaded"),
		},
	})
	d.add("POST "+run+"/cancel", operation{
		ID: "cancelRun", Summary: "Cancel a run", Parameters: []parameter{userParam},
		Description: "Once it is answered, no event of the run follows its terminal one. Cancelling a cancelled " +
			"run gets the same answer again.",
		Answers: answers{
			"200": reply("It is cancelled.", ref("Cancelled"), "cancelled"),
			"400": refuse("It is over.", "invalid_state", "Run cannot be cancelled. Current status: COMPLETED"),
		},
	})
	d.add("POST "+run+"/rerun", operation{
		ID: "rerunRun", Summary: "Run a run again, all of it or from a node or a model call",
		Description: "On a new thread of yours, with the messages, state, tools, context and metadata of the run, its id in `metadata.rerunOf`, and the messages " +
			"before it. With `fromNode` the new run begins as the run was when that node began: the nodes that were completed then are not executed again. " +
			"With `fromCall` also the step of that model call begins with what it had recorded before the call.",
		Parameters: []parameter{userParam, keyHeader},
		Body:       accept(ref("RerunRequest"), "rerun"),
		Answers: startAnswers(answers{
			"202": reply("The new run was taken.", ref("Started"), "started"),
			"400": refuse("The body is wrong, or the run has begun no such node.", "unknown_node", `The run has begun no node "none"`,
				"unknown_call", "The run has made no such model call in its latest generation",
				"invalid_request", "fromNode must be a string"),
			"404": refuse("There is no such run, or its agent, workflow or tool is gone.", "not_found", "Run not found"),
			"409": refuse("What the run began with is gone.", "input_gone", "The messages that the run was started with are not kept any more"),
		}),
	})
	d.add("GET /api/projects/{projectId}/interrupts", operation{
		ID: "listInterrupts", Summary: "List what runs wait for, oldest first",
		Description: "The open interrupts and pending tool calls of all runs that the caller may see. Each can be answered by itself.",
		Parameters:  []parameter{cursorParam, limitParam, countParam, userParam},
		Answers:     answers{"200": reply("A page of them.", ref("InterruptPage"), "interrupts")},
	})
	d.add("POST "+run+"/resume", operation{
		ID: "resumeRun", Summary: "Answer what a run asks",
		Description: "Each open interrupt and pending tool call can be answered by itself, or several at once; the same run goes on with the answers, and waits " +
			"again while others are open.",
		Parameters: []parameter{userParam, keyHeader},
		Body: accept(object("", must("resume", nonempty(list(ref("ResumeEntry"), "An answer to one or more.")))),
			"resume"),
		Answers: answers{
			"202": reply("It goes on.", ref("Resumed"), "resumed"),
			"400": refuse("The body is wrong.", "invalid_request",
				"resume must hold at least one answer", "unknown_interrupt", `There is no interrupt "i"`,
				"duplicate_answer", `The interrupt "i" is answered twice`),
			"409": refuse("It is not open any more, or the key was used with another body.",
				"already_answered", `The interrupt "i" has been answered already`, "interrupt_expired", `The interrupt "i" has expired`,
				"interrupt_cancelled", `The interrupt "i" was cancelled: its step or its run is over`,
				"idempotency_mismatch", "This Idempotency-Key was used with another body"),
		},
	})
}
