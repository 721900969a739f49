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
		"A request for a run: AG-UI's RunAgentInput, in which any member may be missing, and beside it what is "+
			"Baton's own. "+
			"Unknown members are ignored, and null means absent.",
		may("agent", text("The agent to run. Neither it nor workflowId: the one that the thread has run last.")),
		may("workflowId", text("The workflow to run.")),
		may("threadId", name("The thread: a name of your own within your project. Absent: a new one.")),
		may("runId", name("The run: likewise. A run of that name which was asked for in the same words is "+
			"answered again.")),
		may("parentRunId", text("The run this one is started for.")),
		may("protocolVersion", text("The version of AG-UI the client speaks; from 1.0 on its stream is of that "+
			"dialect, else of 0.0.")),
		may("content", text("The text of one user message, instead of messages.")),
		may("messages", list(ref("InputMessage"), "Messages; those with ids that the thread knows are skipped.")),
		may("state", object("Replaces the thread's state unless it is empty.")),
		may("tools", list(ref("ClientTool"), "Tools that the client itself carries out.")),
		may("context", list(ref("Context"), "")),
		may("contextItemIds", list(text(""), "Stored with run and message and handed to the worker.")),
		may("forwardedProps", anything("Handed to the worker. `background: true` keeps the run going when its "+
			"connection is dropped.")),
		may("resume", list(ref("ResumeEntry"), "Answers to what the thread's waiting run asks: the same run goes on.")),
		may("metadata", object("Stored with the run.")),
		may("multitask", choice("What to do when the thread has a run already. Absent "+
			"means enqueue.", "enqueue", "reject", "interrupt", "rollback")),
		may("projectId", text("The project, unless path or query name one.")),
		may("overrides", ref("Overrides")),
		may("rewindTo", text("A message: what follows it is hidden, to edit or to generate again.")),
	))
	d.schemas.name("InputMessage", object("A message as a client sends it.", append([]member{
		must("role", choice("In a thread's first run any, later user, or tool for a pending call.", roles...)),
		may("id", name("Unique in its thread. Absent: a new one.")),
	}, messageMembers()...)...))
	d.schemas.name("RerunRequest", object("What of a run to run again.",
		may("fromNode", name("The node of its workflow to begin from. Absent: all of it.")),
		may("fromCall", name("The model call of its latest generation to begin from, by its id. Not with fromNode.")),
		may("overrides", ref("Overrides"))))
	d.schemas.name("Overrides", object("What replaces the configuration of an agent that asks a model. With accounts for operators.",
		may("model", text("Another model of its provider. It has no fallbacks.")),
		may("system", text("Its instructions, up to 1 MiB.")),
		may("parameters", object("All parameters of its calls; those that are absent are the provider's defaults.",
			may("temperature", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(2.0)}),
			may("topP", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}),
			may("maxTokens", count("")), may("seed", &jsonschema.Schema{Type: "integer"}),
			may("stop", list(text(""), "Up to 16 texts of 1 to 200 bytes at which the answer ends."))))))
	d.schemas.name("AppendRequest", object("A message to append.",
		must("content", text("Its text, up to 1 MiB, not blank.")),
		may("contextItemIds", list(text(""), "Stored with the message and handed to the worker."))))
}

// startAnswers adds the errors of a request for a run.
func startAnswers(own answers) answers {
	all := answers{
		"400": refuse("The body is wrong, or asks what the thread's state does not admit.",
			"invalid_request", "threadId must be a string", "invalid_json", "The request body is not valid JSON",
			"invalid_overrides", "overrides need an agent that asks a model, named in agent",
			"missing_agent", "Give an agent or a workflowId: the thread has had no run",
			"unknown_interrupt", `There is no interrupt "i"`,
			"duplicate_answer", `The interrupt "i" is answered twice`),
		"404": refuse("There is no such agent, workflow "+
			"or project.", "unknown_agent", `There is no agent or workflow "nobody"`, "not_found", "Project not found"),
		"409": refuse("The request is at odds with what is there.",
			"run_exists", `There is a run "run-1" already`,
			"thread_busy", "The thread has a run that is queued or running",
			"thread_waiting", "The thread waits for an answer; answer it or use multitask interrupt",
			"already_answered", `The interrupt "i" has been answered already`,
			"interrupt_expired", `The interrupt "i" has expired`,
			"interrupt_cancelled", `The interrupt "i" was cancelled: its step or its run is over`,
			"idempotency_mismatch", "This Idempotency-Key was used with another body"),
		"413": refuse("The body or what is new in it is too large.", "body_too_large", "The request's body is too large",
			"messages_too_large", "The new messages of a run may hold 8388608 bytes"),
		"429": usual("Overloaded"),
	}
	maps.Copy(all, own)
	return all
}
