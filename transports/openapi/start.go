package openapi

import (
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// startExamples are requests for a run.
var startExamples = []string{"start-least", "start-script", "start-workflow", "start-agui", "start-answer"}

// requests names the schemas of requests.
func (d *describer) requests() {
	d.schemas.name("RunRequest", object(
		"Starts a run: AG-UI's RunAgentInput with all members optional, plus Baton's own members. Unknown members are ignored, and null means absent.",
		may("agent", text("The agent to run. Default, without workflowId: the agent or workflow the thread ran last.")),
		may("workflowId", text("The workflow to run.")),
		may("threadId", name("The thread, by a name of your choice within your project. Default: a new thread.")),
		may("runId", name("The run, by a name of your choice. Repeating a request with the same name and content returns "+
			"the first response again.")),
		may("parentRunId", text("The run that this run is started for.")),
		may("protocolVersion", text("The client's AG-UI version. From 1.0 on, streams use that dialect; else they use dialect 0.0.")),
		may("content", text("Text of one user message. Use instead of `messages`.")),
		may("messages", list(ref("InputMessage"), "The messages. Messages with ids known to the thread are skipped.")),
		may("state", object("Replaces the thread's state, unless empty.")),
		may("tools", list(ref("ClientTool"), "Tools that the client executes.")),
		may("context", list(ref("Context"), "Named pieces of information for the run.")),
		may("contextItemIds", list(text(""), "Stored with the run and its message, and passed to the worker.")),
		may("forwardedProps", anything("Passed to the worker. With `background: true` the run continues when its connection closes.")),
		may("resume", list(ref("ResumeEntry"), "Answers to the thread's waiting run. The same run continues.")),
		may("metadata", object("Stored with the run.")),
		may("multitask", choice("What to do if the thread already has an unfinished run. Default: `enqueue`.", "enqueue", "reject", "interrupt", "rollback")),
		may("projectId", text("The project. The path and the query override it.")),
		may("overrides", ref("Overrides")),
		may("rewindTo", text("A message id. Hides the messages after it, to edit or regenerate.")),
	))
	d.schemas.name("InputMessage", object("A message sent by a client.", append([]member{
		must("role", choice("Any role in a thread's first run. Later: `user`, or `tool` for a pending call.", roles...)),
		may("id", name("Unique in the thread. Default: a new id.")),
	}, messageMembers()...)...))
	d.schemas.name("RerunRequest", object("Where to begin the rerun, and what to change.",
		may("fromNode", name("The workflow node to begin from. Default: the whole run.")),
		may("fromCall", name("Id of the model call to begin from, of the run's latest generation. Not together with fromNode.")),
		may("overrides", ref("Overrides"))))
	d.schemas.name("Overrides", object("Replaces parts of the configuration of an agent that calls a model. With accounts, this needs the role "+
		"operator or admin.",
		may("model", text("Another model of the same provider. It has no fallback models.")),
		may("system", text("The instructions, up to 1 MiB.")),
		may("parameters", object("Replaces all parameters. Absent ones take the provider's defaults.",
			may("temperature", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(2.0)}),
			may("topP", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}),
			may("maxTokens", count("Maximum number of output tokens.")), may("seed", &jsonschema.Schema{Type: "integer"}),
			may("stop", list(text(""), "Up to 16 texts of 1 to 200 bytes. The model stops at any of them."))))))
	d.schemas.name("AppendRequest", object("A message to append.",
		must("content", text("The text. Up to 1 MiB, not blank.")),
		may("contextItemIds", list(text(""), "Stored with the message and passed to the worker."))))
}

// startAnswers adds the errors of a request for a run.
func startAnswers(own answers) answers {
	all := answers{
		"400": refuse("Invalid request body, or not allowed in the thread's current state.",
			"invalid_request", "threadId must be a string", "invalid_json", "The request body is not valid JSON",
			"invalid_overrides", "overrides need an agent that asks a model, named in agent",
			"missing_agent", "Give an agent or a workflowId: the thread has had no run",
			"unknown_interrupt", `There is no interrupt "i"`,
			"duplicate_answer", `The interrupt "i" is answered twice`),
		"404": refuse("The agent, workflow or project does not exist.", "unknown_agent", `There is no agent or workflow "nobody"`, "not_found", "Project not found"),
		"409": refuse("Conflict with an existing run, with the thread's state, or with an earlier answer or request.",
			"run_exists", `There is a run "run-1" already`,
			"thread_busy", "The thread has a run that is queued or running",
			"thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt",
			"already_answered", `The interrupt "i" has been answered already`,
			"interrupt_expired", `The interrupt "i" has expired`,
			"interrupt_cancelled", `The interrupt "i" was cancelled: its step or its run is over`,
			"idempotency_mismatch", "This Idempotency-Key was used with another body"),
		"413": refuse("The body, or its new content, is too large.", "body_too_large", "The request's body is too large",
			"messages_too_large", "The new messages of a run may hold 8388608 bytes"),
		"429": usual("Overloaded"),
	}
	maps.Copy(all, own)
	return all
}
