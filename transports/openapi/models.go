package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/wire"
)

// models names the schemas that several areas use, in the order of their references.
func (d *describer) models() {
	s := &d.schemas
	infer[transports.Problem](s, "Problem", "Why a request was refused.",
		says("detail", "A sentence a person can act on."),
		says("code", "What is wrong, for programs: snake_case."),
		says("place", "With some of status 400: a JSON pointer to what is wrong in the request's body."),
		says("requestId", "With status 500 only: what the server's log calls the request."))
	infer[agui.OutputError](s, "OutputError", "Why a worker or a tool failed.",
		may("details", object("More, for programs.")))
	infer[agui.WorkerOutput](s, "WorkerAgentOutput", "What a worker returned.",
		may("status", choice("", agui.StatusSuccess, agui.StatusPartialSuccess, agui.StatusFailed)),
		may("ui_hints", object("")), may("result", anything("The answer of an agent with an output schema, as JSON.")))
	infer[agui.ToolOutput](s, "ToolAgentOutput", "What a tool returned.",
		may("tool_call_args", object("")), may("ui_hints", object("")),
		may("status", choice("", agui.StatusSuccess, agui.StatusPartial, agui.StatusFailure)),
		says("result_summary", "The result, as a model reads it."))
	infer[agui.TokenUsage](s, "TokenUsage", "Tokens of one provider and model. Input and output are totals, the "+
		"others parts of them.")
	infer[agui.FinishMetadata](s, "FinishMetadata", "The provider and model of the last call, and the run's tokens.")
	infer[agui.Interrupt](s, "Interrupt", "Something a run needs from outside before it can go on.",
		says("reason", "`tool_call`, `input_required`, `confirmation`, or an agent's own."),
		says("responseSchema", "A JSON Schema of the payload of an answer."),
		may("expiresAt", moment("When the server answers it with `cancelled`.")),
		says("answerable", "In answers of REST: whether you may answer it."),
		may("metadata", object("")))
	infer[agui.Outcome](s, "Outcome", "How a span ended that did not fail.",
		says("interrupts", "With `interrupt`: what the run asks. Each can be answered by itself."),
		says("pendingToolCallIds", "With `success`: calls of the client's own tools that the run waits for."))
	d.messages()
	infer[agui.RunAgentInput](s, "RunStartedInput", "What is new to the thread.",
		says("messages", "The messages that the thread did not have."))
	s.name("JSONPatch", list(object("",
		must("op", choice("", "add", "remove", "replace", "move", "copy", "test")),
		must("path", text("")), may("from", text("")), may("value", anything(""))), "A patch as in RFC 6902."))
	d.resources()
	for _, f := range forms[:3] {
		s.name(f.name+"Frame", frame(ref(f.name+"Event")))
	}
}

// messages names the schemas of a thread's messages.
func (d *describer) messages() {
	s := &d.schemas
	infer[agui.Source](s, "ContentSource", "Where the bytes of a part are.",
		may("type", choice("", "data", "url", "file")), says("value", "Base64, a URL, or the provider's handle."))
	infer[agui.Part](s, "ContentPart", "A part of a message's content.",
		may("type", text("`text`, `image`, `audio`, `video` or `document`.")), may("metadata", object("")))
	infer[agui.Tool](s, "ClientTool", "A tool that the client itself carries out.",
		says("parameters", "A JSON Schema of its arguments."), may("metadata", object("")))
	infer[agui.Context](s, "Context", "A named piece of information for a run.")
	infer[agui.ResumeEntry](s, "ResumeEntry", "The answer to an interrupt.",
		may("status", choice("", "resolved", "cancelled")), says("payload", "What the interrupt's "+
			"responseSchema asks for."),
		may("metadata", object("")))
	call := object("A tool call of an assistant message.",
		must("id", text("")), must("type", constant("function")),
		must("function", object("", must("name", text("")), must("arguments", text("JSON.")))),
		may("encryptedValue", text("")), may("metadata", object("")))
	s.name("ToolCall", call)
	s.name("ThreadMessage", object("A message of a thread, as AG-UI has it.",
		append([]member{must("id", text("Unique in its thread.")), must("role", choice("", roles...))}, messageMembers()...)...))
	known[agui.ToolCall](s, "ToolCall")
	known[agui.Message](s, "ThreadMessage")
}

// messageMembers are a message's members beside its id and role.
func messageMembers() []member {
	return []member{
		may("content", either("Text; of a user or tool message also parts; of an activity an object.",
			text(""), list(anything(""), "Parts: see ContentPart. Dialect 0.0's `binary` parts "+
				"are taken too."), object(""))),
		may("name", text("")), may("toolCalls", list(ref("ToolCall"), "Of an assistant message.")),
		may("toolCallId", text("Of a tool message.")), may("error", text("Of a tool message.")),
		may("activityType", text("Of an activity message.")), may("encryptedValue", text("")),
		may("subagentRunId", text("")), may("metadata", object("")),
	}
}

// resources names the schemas of runs as resources.
func (d *describer) resources() {
	s := &d.schemas
	infer[wire.Run](s, "Run", "A run.",
		says("id", "The name its client gave it."),
		says("workflowId", "The workflow, or the agent's name for a single agent."),
		says("inputQuery", "The text of the user message it was started with."),
		says("outputSummary", "What its last worker answered."),
		says("threadId", "The thread, as its client named it."),
		says("threadTitle", "Null when it has none."),
		says("conversationId", "The thread, as Baton names it: a UUID."),
		says("agent", "Null for a workflow."),
		says("error", "Why it failed."),
		says("generation", "Counts restarts, from 1."),
		says("user", "Whose it is."),
		says("attempts", "To execute it: 0 before it has started, then 1, and one more for each crash in a row."),
		says("cost", "Of its tokens, by the prices of the agents that are offered now; null when one of its models has none."),
		says("parentRunId", "The run this one was started for."),
		says("interrupts", "What it asks now."),
		may("metadata", object("Of its request; not in lists, nor without any.")),
		may("overrides", ref("Overrides")),
		may("waiting", object("Only while a run is QUEUED, or has no slot among the runs at once.",
			must("reason", choice("Another run of its thread executes, or waits for an answer; the runs at once of its user, its project, its agent "+
				"or the server are at their limit, in number or in bytes; or a model's provider takes no calls at present, so that the run has lent its slot.",
				"thread_busy", "thread_waiting", "user_limit", "project_limit", "agent_limit", "server_limit", "provider_pace", "no_server")),
			may("behind", text("The run of its thread that comes first.")),
			may("position", count("Its place among the queued runs of its thread, or among its user's threads whose next run is queued: 1 is the next.")),
			must("since", moment("When it was queued, or has lent its slot or wants it back.")),
			may("until", moment("When the provider takes calls again, as far as it has told.")))))
	infer[wire.Question](s, "OpenInterrupt", "Something a run waits for, and whose it is.",
		says("reason", "`tool_call`, `input_required`, `confirmation`, or an agent's own."),
		says("responseSchema", "A JSON Schema of the payload of an answer."),
		may("expiresAt", moment("When the server answers it with `cancelled`.")),
		says("answerable", "Whether you may answer it."),
		may("metadata", object("")),
		says("toolName", "Of a call that is to be approved, or that the client answers."),
		may("arguments", anything("The call's, null when there are none to show or they are larger than 64 KiB: the log has them.")),
		says("agent", "The agent or workflow."),
		says("user", "Whose run it is."),
		says("createdAt", "When it was asked."))
	infer[wire.Step](s, "Step", "One execution of a node.",
		may("status", choice("", statuses[1:]...)),
		says("stepNumber", "In the order they started, from 1."),
		says("durationMs", "Null until it is over."),
		says("error", "Why it failed, as a sentence. Null without an error."),
		says("errorCode", "The error's code, for programs. Null without an error."),
		says("errorRetryable", "Whether another attempt may succeed. Null without an error."))
	infer[wire.Node](s, "NodeState", "The state of a node of a run.",
		may("status", choice("", "PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED")),
		may("progress", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}),
		says("error", "Why it failed, as a sentence. Null without an error."),
		says("errorCode", "The error's code, for programs. Null without an error."),
		says("errorRetryable", "Whether another attempt may succeed. Null without an error."))
	call := []member{
		says("id", "The `callId` of the run's `model-call` events."),
		says("step", "The number of the step."),
		may("status", choice("", agui.ModelStarted, agui.ModelFinished, agui.ModelFailed, agui.ModelInterrupted)),
		says("usage", "Null while the call is under way, and where the provider has not told."),
		says("cost", "Of its tokens, by the prices of the agents that are offered now; null when its model has none."),
		says("firstTokenMs", "From its beginning to the first piece of the answer."),
		says("durationMs", "Null until it is over."),
	}
	infer[plugins.PromptTool](s, "SentTool", "A tool that the model could call.")
	infer[plugins.PromptChange](s, "PromptChange", "A difference between the log and the prompt.",
		says("kind", "`shortened` (a result of a tool), `dropped` or `summarised` (the conversation up to a message), `replaced` (the arguments of a "+
			"call), `left_out` (a tool), `removed` (messages whose run was deleted), `cut` (by this answer or for its size), or an agent's own."),
		says("of", "The id of the message or the call, or the name of the tool."))
	infer[wire.SentMessage](s, "SentMessage", "A message of a prompt.",
		says("id", "The thread's message that the model got as it is."),
		may("content", either("A text, or texts and descriptions of files.", text(""), list(object("",
			must("type", choice("", "text", "image", "audio", "video", "document")), may("text", text("")), may("mimeType", text("")),
			may("size", count("In bytes.")), may("path", text("Of an attachment.")), may("filename", text("")), may("url", text(""))), ""))))
	infer[wire.SentPrompt](s, "SentPrompt", "What a model was sent.",
		says("system", "The instructions, empty for users and viewers."),
		says("tools", "Empty for users and viewers."),
		may("hidden", object("The size of the instructions and tools that users and viewers do not see; absent for operators.",
			must("systemBytes", count("")), must("tools", count("")), must("toolBytes", count("")))),
		may("parameters", object("Those that are set, such as `temperature`.")))
	infer[wire.ModelAnswer](s, "ModelAnswer", "The answer of a model, as it gave it.")
	infer[wire.WholeModelCall](s, "WholeModelCall", "A call of a model with its prompt and answer.", append(call,
		says("sent", "Null where prompts are not kept."),
		says("answered", "Null until it is over, without an answer, and where prompts are not kept."))...)
	infer[wire.ModelCall](s, "ModelCall", "A call of a model in a run.", call...)
	infer[wire.Message](s, "Message", "A message of a run.",
		says("content", "Its text; media parts are left out."))
	infer[wire.Started](s, "Started", "A run that was taken.",
		says("status", "QUEUED while another run of the thread goes before it."),
		says("eventsUrl", "Where to watch it, from the request on."))
	infer[wire.Cancelled](s, "Cancelled", "A run that is cancelled.")
	infer[wire.Resumed](s, "Resumed", "A run that goes on.")
	pageOf[wire.Run](s, "RunPage")
	pageOf[wire.Question](s, "InterruptPage")
	pageOf[wire.Step](s, "StepPage")
	pageOf[wire.Message](s, "MessagePage")
	pageOf[wire.ModelCall](s, "ModelCallPage")
	infer[wire.Items[wire.Node]](s, "NodeStates", "The states of a run's nodes.")
}

// pageOf names the schema of a page of a list.
func pageOf[T any](s *schemas, name string) {
	infer[wire.Page[T]](s, name, "A page of a list.",
		says("nextCursor", "The `cursor` of the next page, null on the last."),
		says("total", "How many the whole list has. Lists of a run's steps, messages and calls of models always have it. Other lists are counted with `count=true`: "+
			"null then means that there are more than 10 000, or that counting would take reading more than a page does."))
}
