package openapi

import (
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/batonrun/baton/runtime/agui"
)

// event describes an event type in all forms that have it.
type event struct {
	typ     agui.Type
	about   string
	in      int // the forms that have it
	members []eventMember
}

// eventMember is a member that some forms of its event have.
type eventMember struct {
	member
	in int
}

func on(in int, members ...member) []eventMember {
	list := make([]eventMember, len(members))
	for i, m := range members {
		list[i] = eventMember{m, in}
	}
	return list
}

func members(lists ...[]eventMember) (all []eventMember) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// events are the event types, each described once.
func events() []event {
	messageID := must("messageId", text("The message."))
	callID := must("toolCallId", text("The tool call."))
	usage := may("usage", list(ref("TokenUsage"), "Tokens by provider and model."))
	plain := func(typ agui.Type, about string, in int, list ...member) event {
		return event{typ, about, in, on(every, list...)}
	}
	return []event{
		{agui.TypeRunStarted, "Opens a span of a run: the start, a restart, or the continuation after an answer.", every, members(
			on(strict, must("threadId", threadID), must("runId", runID)),
			on(public, may("threadId", threadID), may("runId", runID)),
			on(full, may("protocolVersion", text("The client's AG-UI version."))),
			on(agui1, must("protocolVersion", constant(agui.ProtocolVersion))),
			on(every, may("parentRunId", text("The run's first name, if `runId` is a later one."))),
			on(full|public, may("agentId", text("The agent or workflow."))),
			on(every, may("input", as("RunStartedInput", "What the run adds to the thread."))),
		)},
		{agui.TypeRunFinished, "Ends a span of a run that did not fail. Only a new RUN_STARTED can follow for the run.", every, members(
			on(strict, must("threadId", threadID), must("runId", runID)),
			on(public, may("threadId", threadID), may("runId", runID)),
			on(every, may("result", anything("What the run returned.")),
				may("outcome", as("Outcome", "Why the span ended. Default: success.")), usage),
		)},
		plain(agui.TypeRunError, "Ends a span of a run that failed.", every,
			must("message", text("What failed, for people.")), may("code", text("The error code, for programs.")), usage),
		plain(agui.TypeStepStarted, "Opens a step. Its name is unique among the run's "+
			"open steps.", whole, must("stepName", text("The node, or `name:<id>` for a sub-agent."))),
		plain(agui.TypeStepFinished, "Closes a step.", whole, must("stepName", text("The name from STEP_STARTED."))),
		{agui.TypeTextMessageStart, "Opens a text message. A run has at most one open text message.", every, members(
			on(every, messageID, must("role", choice("The author's role.", roles[:4]...)), may("name", text("Name of the author."))),
			on(full, may("stage", text("The stage of work the text belongs to."))),
		)},
		plain(agui.TypeTextMessageContent, "Adds to an open text message.", every, messageID, must("delta", fragment())),
		{agui.TypeTextMessageEnd, "Closes a text message.", every, members(
			on(every, messageID),
			on(full, must("workerAgentOutput", ref("WorkerAgentOutput"))),
		)},
		plain(agui.TypeToolCallStart, "Opens a tool call.", every,
			callID, must("toolCallName", text("The tool.")), may("parentMessageId", text("The assistant message with the call."))),
		plain(agui.TypeToolCallArgs, "Adds to a tool call's arguments.", every, callID, must("delta", fragment())),
		plain(agui.TypeToolCallEnd, "Marks a tool call's arguments as complete.", every, callID),
		{agui.TypeToolCallResult, "The result of a tool call.", every, members(
			on(every, must("messageId", text("The tool message.")), callID, must("role", constant(agui.RoleTool))),
			on(full|agui0|public, must("content", text("The result, as the model reads it."))),
			on(agui1, must("content", either("The result, as the model reads it: text, or AG-UI content parts.", text(""), list(ref("ContentPart"), "")))),
			on(full, must("toolAgentOutput", ref("ToolAgentOutput"))),
			on(public, may("isError", flag("Whether the tool failed."))),
		)},
		{agui.TypeStateSnapshot, "Replaces the thread's state.", logged, members(
			on(whole, must("snapshot", anything("The new state."))),
			on(public, must("snapshot", object("The new state."))),
		)},
		plain(agui.TypeStateDelta, "Changes the thread's state.", logged, must("delta", as("JSONPatch", ""))),
		plain(agui.TypeMessagesSnapshot, "Replaces the thread's messages.", logged, must("messages", list(ref("ThreadMessage"), "The new messages."))),
		plain(agui.TypeActivitySnapshot, "Creates or replaces an activity message.", whole,
			messageID,
			must("activityType", text("The kind of activity.")),
			must("content", object("The activity.")),
			may("replace", flag("Replace an existing activity. Default: true."))),
		plain(agui.TypeActivityDelta, "Changes an activity message.", whole,
			messageID, must("activityType", text("The kind of activity.")), must("patch", as("JSONPatch", ""))),
		plain(agui.TypeReasoningStart, "Opens a span of reasoning.", whole, messageID),
		plain(agui.TypeReasoningMessageStart, "Opens a reasoning message.", logged,
			messageID, must("role", constant(agui.RoleReasoning))),
		plain(agui.TypeReasoningMessageContent, "Adds to an open reasoning message.", logged, messageID, must("delta", fragment())),
		plain(agui.TypeReasoningMessageEnd, "Closes a reasoning message.", logged, messageID),
		plain(agui.TypeReasoningEnd, "Closes a span of reasoning.", whole, messageID),
		plain(agui.TypeReasoningEncryptedValue, "Attaches an opaque value of a provider.", whole,
			must("subtype", choice("What the value belongs to.", "message", "tool-call")), must("entityId", text("The message or tool call.")),
			must("encryptedValue", text("The value."))),
		plain(agui.TypeSubagentStarted, "Opens an invocation of a sub-agent, named by `subagentRunId`.", agui1,
			must("name", text("The sub-agent.")),
			may("description", text("What the sub-agent does.")),
			may("parentSubagentRunId", text("The invocation that started it.")),
			may("parentToolCallId", text("The tool call that started it.")), may("parentMessageId", text("The message with that tool call."))),
		plain(agui.TypeSubagentFinished, "Closes an invocation of a sub-agent.", agui1,
			may("result", anything("")), may("outcome", object(""))),
		plain(agui.TypeSubagentError, "Closes an invocation of a sub-agent that failed. The run continues.", agui1, must("message", text("What failed, for people.")), may("code", text("The error code, for programs."))),
		plain(agui.TypeCustom, "An event of an application, or one of Baton's own. `node-progress` has `{nodeId, progress, message}`. "+
			"`model-call` has `{callId, status, finishReason, usage, error}`, with the status `started`, `finished`, `failed` or `interrupted`. "+
			"`guard` has `{name, on, verdict, reason}`, with the verdict `allow`, `refuse`, `rewrite` or `ask`. "+
			"`parked` has `{kind, name, until}`, with the kind `time` or `event`, and `woken` `{kind, by}`. "+
			"`messages-retracted` has `{messageIds}`. `log-reset` has `{from, to}` and stands where events were removed.", logged,
			must("name", text("The kind of event.")),
			must("value", anything(""))),
		plain(agui.TypeRaw, "A provider's event, passed through.", whole, must("event", anything("")), may("source", text("The source of the event."))),
	}
}

func fragment() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MinLength: new(1), Description: "The added text. Never empty."}
}
