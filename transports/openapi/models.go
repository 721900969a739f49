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
	infer[transports.Problem](s, "Problem", "An error response.",
		says("detail", "A sentence for people that says what to change."),
		says("code", "A code for programs, in snake_case. Branch on this."),
		says("place", "Some 400 responses only: a JSON pointer to the invalid part of the request body."),
		says("requestId", "500 responses only: the id of the request in the server's log."))
	infer[agui.OutputError](s, "OutputError", "Why a worker or a tool failed.",
		may("details", object("Further facts, for programs.")), says("code", "The error code."),
		says("message", "What failed, as a sentence."),
		says("retryable", "Whether another attempt may succeed."))
	infer[agui.WorkerOutput](s, "WorkerAgentOutput", "What a worker returned.",
		may("status", choice("How the worker ended.", agui.StatusSuccess, agui.StatusPartialSuccess, agui.StatusFailed)),
		may("ui_hints", object("Display hints for front ends.")), may("result", anything("The JSON answer of an agent with an output schema.")))
	infer[agui.ToolOutput](s, "ToolAgentOutput", "What a tool returned.",
		may("tool_call_args", object("The arguments the tool was called with.")), may("ui_hints", object("Display hints for front ends.")),
		may("status", choice("How the call ended.", agui.StatusSuccess, agui.StatusPartial, agui.StatusFailure)),
		says("result_summary", "The result, as the model reads it."), says("tool_name", "The tool."),
		says("tool_call_id", "The tool call."))
	infer[agui.TokenUsage](s, "TokenUsage", "Tokens used with one provider and model. `inputTokens` and `outputTokens` are totals; the other counts "+
		"are parts of them.")
	infer[agui.FinishMetadata](s, "FinishMetadata", "Provider and model of the last call, and the run's tokens.")
	infer[agui.Interrupt](s, "Interrupt", "Something a run needs from outside before it can continue.",
		says("reason", "`tool_call`, `input_required`, `confirmation`, or a reason of the agent."),
		says("responseSchema", "JSON Schema of the answer's payload."),
		may("expiresAt", moment("Expiry time. The server then answers with `cancelled`.")),
		says("answerable", "REST responses only: whether you may answer it."),
		may("metadata", object("Further facts, such as the kind of question.")), says("id", "Use it as `interruptId` of the answer."),
		says("message", "The question, for people."), says("toolCallId", "The tool call it is about."),
		says("subagentRunId", "The sub-agent invocation it belongs to."))
	infer[agui.Outcome](s, "Outcome", "How a span ended that did not fail.",
		says("interrupts", "With `interrupt`: the run's open questions. Each can be answered on its own."),
		says("pendingToolCallIds", "With `success`: calls of the client's tools that the run waits for."))
	d.messages()
	infer[agui.RunAgentInput](s, "RunStartedInput", "What the run adds to the thread.",
		says("messages", "Messages that the thread did not have before."))
	s.name("JSONPatch", list(object("",
		must("op", choice("The operation.", "add", "remove", "replace", "move", "copy", "test")),
		must("path", text("JSON pointer to the target.")), may("from", text("JSON pointer to the source, for `move` and `copy`.")),
		may("value", anything("The value, for `add`, `replace` and `test`."))), "A JSON Patch (RFC 6902)."))
	d.resources()
	for _, f := range forms[:3] {
		s.name(f.name+"Frame", frame(ref(f.name+"Event")))
	}
}

// messages names the schemas of a thread's messages.
func (d *describer) messages() {
	s := &d.schemas
	infer[agui.Source](s, "ContentSource", "Where the bytes of a part are.",
		may("type", choice("The form of `value`.", "data", "url", "file")), says("value", "Base64 data, a URL, or a provider's file handle."))
	infer[agui.Part](s, "ContentPart", "A part of a message's content.",
		may("type", text("`text`, `image`, `audio`, `video` or `document`.")), may("metadata", object("")))
	infer[agui.Tool](s, "ClientTool", "A tool that the client executes.",
		says("parameters", "JSON Schema of the arguments."), may("metadata", object("")), says("name", "The tool's name."),
		says("description", "What the tool does, for the model."))
	infer[agui.Context](s, "Context", "A named piece of information for a run.",
		says("description", "What the value is."),
		says("value", "The information."))
	infer[agui.ResumeEntry](s, "ResumeEntry", "The answer to an interrupt.",
		may("status", choice("`resolved` with a payload, or `cancelled` without one.", "resolved", "cancelled")),
		says("payload", "The answer, valid against the interrupt's `responseSchema`."), may("metadata", object("")),
		says("interruptId", "The interrupt."))
	call := object("A tool call of an assistant message.",
		must("id", text("The call's id.")), must("type", constant("function")),
		must("function", object("", must("name", text("The tool.")), must("arguments", text("The arguments, as a JSON text.")))),
		may("encryptedValue", text("")), may("metadata", object("")))
	s.name("ToolCall", call)
	s.name("ThreadMessage", object("A message of a thread, in AG-UI's form.",
		append([]member{must("id", text("Unique in the thread.")), must("role", choice("The author's role.", roles...))}, messageMembers()...)...))
	known[agui.ToolCall](s, "ToolCall")
	known[agui.Message](s, "ThreadMessage")
}

// messageMembers are a message's members beside its id and role.
func messageMembers() []member {
	return []member{
		may("content", either("Text. User and tool messages may have parts, activity messages an object.",
			text(""), list(anything(""), "Parts; see ContentPart. `binary` parts of dialect 0.0 are accepted too."), object(""))),
		may("name", text("Name of the author.")), may("toolCalls", list(ref("ToolCall"), "Assistant messages only.")),
		may("toolCallId", text("Tool messages only.")), may("error", text("Tool messages only: why the tool failed.")),
		may("activityType", text("Activity messages only.")), may("encryptedValue", text("An opaque value of the provider.")),
		may("subagentRunId", text("The sub-agent invocation it belongs to.")), may("metadata", object("")),
	}
}

// resources names the schemas of runs as resources.
func (d *describer) resources() {
	s := &d.schemas
	infer[wire.Run](s, "Run", "A run.",
		says("id", "The name its client gave it."), says("workflowId", "The workflow. The agent's name if the run is of a single agent."),
		says("inputQuery", "Text of the user message that started the run."), says("outputSummary", "Answer of the last worker."),
		says("threadId", "The thread's name, as chosen by the client."), says("threadTitle", "Null if the thread has no title."),
		says("conversationId", "Baton's own id of the thread, a UUID."), says("agent", "Null for a workflow."),
		says("error", "Why the run failed. Null without an error."),
		says("generation", "Number of this generation. Starts at 1 and increases with each restart."),
		says("user", "The owner of the run."),
		says("attempts", "Attempts to execute the run. 0 until it starts, then 1, and one more for each crash in a row."),
		says("cost", "Cost of its tokens at the current prices of the agents. Null if one of its models has no price."),
		says("parentRunId", "The run that this run was started for."), says("interrupts", "Its open interrupts."),
		may("metadata", object("Metadata of the request. Absent in lists and if the request had none.")),
		may("overrides", ref("Overrides")),
		may("waiting", object("Why the run is not executing. Present only while it is QUEUED or has no execution slot.",
			must("reason", choice("`thread_busy`: another run of the thread executes. `thread_waiting`: another run of the thread waits for an answer. "+
				"`user_limit`, `project_limit`, `agent_limit`, `server_limit`: the number or total size of concurrent runs is at its limit. `provider_pace`: "+
				"the model's provider accepts no calls at present, so the run has lent its slot. `no_server`: no server executes runs of this agent.",
				"thread_busy", "thread_waiting", "user_limit", "project_limit", "agent_limit", "server_limit", "provider_pace", "no_server")),
			may("behind", text("The run of the same thread that goes first.")),
			may("position", count("Place among the thread's queued runs, or among the user's threads whose next run is queued. 1 is next.")),
			must("since", moment("When the run was queued, lent its slot, or asked to have it back.")),
			may("until", moment("With `provider_pace`: when the provider accepts calls again, if known. "+
				"With `no_server`: when the run fails if no server offers its agent.")))),
		says("projectId", "The project."), says("status", "The run's status."), says("startedAt", "Start time. Null until the run starts."),
		says("finishedAt", "End time. Null until the run ends."), says("contextItemIds", "The `contextItemIds` of the request."),
		says("usage", "Tokens by provider and model."), says("inputTokens", "Total of input tokens."),
		says("outputTokens", "Total of output tokens."), says("createdAt", "Creation time."),
		says("lastEvent", "The run's latest event. Absent in lists."))
	infer[wire.Question](s, "OpenInterrupt", "An open interrupt, with its run.",
		says("reason", "`tool_call`, `input_required`, `confirmation`, or a reason of the agent."),
		says("responseSchema", "JSON Schema of the answer's payload."),
		may("expiresAt", moment("Expiry time. The server then answers with `cancelled`.")),
		says("answerable", "Whether you may answer it."), may("metadata", object("Further facts, such as the kind of question.")),
		says("toolName", "The tool, if a call needs approval or is the client's to execute."),
		may("arguments", anything("The call's arguments. Null without arguments to show, or above 64 KiB; the log then has them.")),
		says("agent", "The agent or workflow."), says("user", "Owner of the run."), says("createdAt", "Time of the question."),
		says("id", "Use it as `interruptId` of the answer."), says("message", "The question, for people."),
		says("toolCallId", "The tool call it is about."), says("runId", "The run that waits."),
		says("threadId", "The run's thread."))
	infer[wire.Step](s, "Step", "One execution of a node.",
		may("status", choice("The step's status.", statuses[1:]...)), says("stepNumber", "Order of the start, from 1."),
		says("durationMs", "Null until the step ends."), says("error", "Why the step failed, as a sentence. Null without an error."),
		says("errorCode", "The error code. Null without an error."),
		says("errorRetryable", "Whether another attempt may succeed. Null without an error."), says("id", "The step's id."),
		says("runId", "The run."), says("nodeId", "The node."), says("input", "The input, as text."),
		says("output", "The output, as text. Null until the step ends."), says("startedAt", "Start time."),
		says("completedAt", "End time. Null until the step ends."))
	infer[wire.Node](s, "NodeState", "The state of one node of a run.",
		may("status", choice("The node's status.", "PENDING", "RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED")),
		may("progress", &jsonschema.Schema{Type: "number", Minimum: new(0.0), Maximum: new(1.0)}),
		says("error", "Why the node failed, as a sentence. Null without an error."),
		says("errorCode", "The error code. Null without an error."),
		says("errorRetryable", "Whether another attempt may succeed. Null without an error."), says("runId", "The run."),
		says("nodeId", "The node."), says("messages", "Progress messages of the node."),
		says("startedAt", "Start time. Null until the node starts."),
		says("completedAt", "End time. Null until the node ends."))
	call := []member{
		says("id", "The `callId` of the run's `model-call` events."), says("step", "Number of the step."),
		may("status", choice("The call's status.", agui.ModelStarted, agui.ModelFinished, agui.ModelFailed, agui.ModelInterrupted)),
		says("usage", "Null until the call ends, and if the provider reported no usage."),
		says("cost", "Cost of its tokens at the current prices of the agents. Null if its model has no price."),
		says("firstTokenMs", "Milliseconds from the start of the call to the first token."),
		says("durationMs", "Duration in milliseconds. Null until the call ends."),
	}
	infer[plugins.PromptTool](s, "SentTool", "A tool offered to the model.",
		says("name", "The tool's name."),
		says("description", "What the tool does, for the model."))
	infer[plugins.PromptChange](s, "PromptChange", "A difference between the log and the prompt.",
		says("kind", "`shortened`: a tool's result. `dropped` or `summarised`: the conversation up to a message. `replaced`: the arguments of a call. "+
			"`left_out`: a tool. `removed`: messages of a deleted run. `cut`: by this response, or for its size. Agents may add kinds of their own."),
		says("of", "The id of the message or call, or the name of the tool."),
		says("why", "The reason, as text."))
	infer[wire.SentMessage](s, "SentMessage", "A message of a prompt.",
		says("id", "The thread's message that was sent unchanged."),
		may("content", either("A text, or a list of texts and file descriptions.", text(""), list(object("",
			must("type", choice("The kind of part.", "text", "image", "audio", "video", "document")), may("text", text("The text.")),
			may("mimeType", text("Media type of the file.")), may("size", count("Size in bytes.")),
			may("path", text("Path of the attachment.")), may("filename", text("Name of the file.")),
			may("url", text("URL of the file."))), ""))))
	infer[wire.SentPrompt](s, "SentPrompt", "The prompt that was sent to the model.",
		says("system", "The instructions. Empty for users and viewers."), says("tools", "The tools. Empty for users and viewers."),
		may("hidden", object("Sizes of the instructions and tools, for users and viewers, who do not see them. Absent for operators.",
			must("systemBytes", count("Bytes of the instructions.")), must("tools", count("Number of tools.")),
			must("toolBytes", count("Bytes of the tools.")))),
		may("parameters", object("The parameters that are set, such as `temperature`.")), says("messages", "The messages, in order."),
		says("changes", "Differences between the log and the prompt."))
	infer[wire.ModelAnswer](s, "ModelAnswer", "The model's answer, as received.",
		says("text", "The text."), says("reasoning", "The reasoning, as text."), says("toolCalls", "The tool calls."),
		says("finishReason", "Why the model stopped."))
	infer[wire.WholeModelCall](s, "WholeModelCall", "A model call with its prompt and answer.", append(call,
		says("sent", "The prompt. Null if the server keeps no prompts."),
		says("answered", "The answer. Null until the call ends, without an answer, and if the server keeps no prompts."))...)
	infer[wire.ModelCall](s, "ModelCall", "A model call of a run.", call...)
	infer[wire.Message](s, "Message", "A message of a run.",
		says("content", "The text. Media parts are left out."), says("id", "The message id."), says("runId", "The run."),
		says("role", "The author's role."), says("contextItemIds", "The `contextItemIds` of the request."),
		says("createdAt", "Creation time."))
	infer[wire.Started](s, "Started", "An accepted run.",
		says("status", "QUEUED while another run of the thread goes first."),
		says("eventsUrl", "The event stream of the thread, starting at this request."), says("threadId", "The thread's name."),
		says("runId", "The run's name."),
		says("conversationId", "Baton's own id of the thread, a UUID."))
	infer[wire.Cancelled](s, "Cancelled", "A cancelled run.",
		says("id", "The run."), says("status", "The run's status."),
		says("finishedAt", "End time."))
	infer[wire.Resumed](s, "Resumed", "A run that continues.",
		says("id", "The run."),
		says("status", "The run's status."))
	pageOf[wire.Run](s, "RunPage")
	pageOf[wire.Question](s, "InterruptPage")
	pageOf[wire.Step](s, "StepPage")
	pageOf[wire.Message](s, "MessagePage")
	pageOf[wire.ModelCall](s, "ModelCallPage")
	infer[wire.Items[wire.Node]](s, "NodeStates", "States of a run's nodes.")
}

// pageOf names the schema of a page of a list.
func pageOf[T any](s *schemas, name string) {
	infer[wire.Page[T]](s, name, "A page of a list.",
		says("nextCursor", "The `cursor` of the next page. Null on the last page."),
		says("total", "Number of items in the whole list. Always present for a run's steps, messages and model calls. Other lists are counted with "+
			"`count=true`, else it is null. It is also null for more than 10 000 items, and if counting would read more than a page does."))
}
