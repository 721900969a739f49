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
	messageID := must("messageId", text("The message it belongs to."))
	callID := must("toolCallId", text("The tool call it belongs to."))
	usage := may("usage", list(ref("TokenUsage"), "Tokens by provider and model."))
	plain := func(typ agui.Type, about string, in int, list ...member) event {
		return event{typ, about, in, on(every, list...)}
	}
	return []event{
		{agui.TypeRunStarted, "Opens a span of a run: its start, a restart, or its continuation " +
			"after an answer.", every, members(
			on(strict, must("threadId", threadID), must("runId", runID)),
			on(public, may("threadId", threadID), may("runId", runID)),
			on(full, may("protocolVersion", text("The version of AG-UI its client speaks."))),
			on(agui1, must("protocolVersion", constant(agui.ProtocolVersion))),
			on(every, may("parentRunId", text("The run's first name, when `runId` is a later one."))),
			on(full|public, may("agentId", text("The agent or workflow."))),
			on(every, may("input", as("RunStartedInput", "What is new to the thread."))),
		)},
		{agui.TypeRunFinished, "Ends a span of a run that did not fail. Nothing of the run follows but a " +
			"RUN_STARTED.", every, members(
			on(strict, must("threadId", threadID), must("runId", runID)),
			on(public, may("threadId", threadID), may("runId", runID)),
			on(every, may("result", anything("What the run returned.")),
				may("outcome", as("Outcome", "Why the span ended; absent means success.")), usage),
		)},
		plain(agui.TypeRunError, "Ends a span of a run that failed.", every,
			must("message", text("What went wrong.")), may("code", text("What went wrong, for programs.")), usage),
		plain(agui.TypeStepStarted, "Opens a step. Its name is unique among the run's "+
			"open steps.", whole, must("stepName", text("The node, or `name:<id>` for a sub-agent."))),
		plain(agui.TypeStepFinished, "Closes a step.", whole, must("stepName", text("The name it was opened with."))),
		{agui.TypeTextMessageStart, "Opens a text message. One at a time is open in a run.", every, members(
			on(every, messageID, must("role", choice("", roles[:4]...)), may("name", text(""))),
			on(full, may("stage", text("The stage of the work the text belongs to."))),
		)},
		plain(agui.TypeTextMessageContent, "Adds to an open text message.", every, messageID, must("delta", fragment())),
		{agui.TypeTextMessageEnd, "Closes a text message.", every, members(
			on(every, messageID),
			on(full, must("workerAgentOutput", ref("WorkerAgentOutput"))),
		)},
		plain(agui.TypeToolCallStart, "Opens a tool call.", every,
			callID, must("toolCallName", text("The tool.")), may("parentMessageId", text("The assistant message it belongs to."))),
		plain(agui.TypeToolCallArgs, "Adds to a tool call's arguments.", every, callID, must("delta", fragment())),
		plain(agui.TypeToolCallEnd, "Says that a tool call's arguments are complete.", every, callID),
		{agui.TypeToolCallResult, "Says what a tool returned.", every, members(
			on(every, must("messageId", text("The tool message.")), callID, must("role", constant(agui.RoleTool))),
			on(full|agui0|public, must("content", text("The result, as a model reads it."))),
			on(agui1, must("content", either("The result, as a model reads it: text, or AG-UI "+
				"content parts.", text(""), list(ref("ContentPart"), "")))),
			on(full, must("toolAgentOutput", ref("ToolAgentOutput"))),
			on(public, may("isError", flag("The tool failed."))),
		)},
		{agui.TypeStateSnapshot, "Replaces the thread's state.", logged, members(
			on(whole, must("snapshot", anything("The state."))),
			on(public, must("snapshot", object("The state."))),
		)},
		plain(agui.TypeStateDelta, "Changes the thread's state.", logged, must("delta", as("JSONPatch", ""))),
		plain(agui.TypeMessagesSnapshot, "Replaces the thread's messages.", logged, must("messages", list(ref("ThreadMessage"), ""))),
		plain(agui.TypeActivitySnapshot, "Creates or replaces an activity message.", whole,
			messageID, must("activityType", text("")), must("content", object("")), may("replace", flag("Absent means true."))),
		plain(agui.TypeActivityDelta, "Changes an activity message.", whole,
			messageID, must("activityType", text("")), must("patch", as("JSONPatch", ""))),
		plain(agui.TypeReasoningStart, "Opens a span of reasoning.", whole, messageID),
		plain(agui.TypeReasoningMessageStart, "Opens a reasoning message.", logged,
			messageID, must("role", constant(agui.RoleReasoning))),
		plain(agui.TypeReasoningMessageContent, "Adds to an open reasoning message.", logged, messageID, must("delta", fragment())),
		plain(agui.TypeReasoningMessageEnd, "Closes a reasoning message.", logged, messageID),
		plain(agui.TypeReasoningEnd, "Closes a span of reasoning.", whole, messageID),
		plain(agui.TypeReasoningEncryptedValue, "Attaches an opaque value of a provider.", whole,
			must("subtype", choice("", "message", "tool-call")), must("entityId", text("The message or tool call.")),
			must("encryptedValue", text(""))),
		plain(agui.TypeSubagentStarted, "Opens an invocation of a sub-agent, named by `subagentRunId`.", agui1,
			must("name", text("")), may("description", text("")), may("parentSubagentRunId", text("")),
			may("parentToolCallId", text("")), may("parentMessageId", text(""))),
		plain(agui.TypeSubagentFinished, "Closes an invocation of a sub-agent.", agui1,
			may("result", anything("")), may("outcome", object(""))),
		plain(agui.TypeSubagentError, "Closes an invocation of a sub-agent that failed; the "+
			"run goes on.", agui1, must("message", text("")), may("code", text(""))),
		plain(agui.TypeCustom, "An event of an application. Baton's own: `node-progress` `{nodeId, progress, message}`, "+
			"`model-call` `{callId, status, finishReason, usage, error}` of the statuses `started`, `finished`, `failed` and `interrupted`, "+
			"`guard` `{name, on, verdict, reason}` of the verdicts `allow`, `refuse`, `rewrite` and `ask`, "+
			"`messages-retracted` `{messageIds}` and, where events were removed, `log-reset` `{from, to}`.", logged, must("name", text("")), must("value", anything(""))),
		plain(agui.TypeRaw, "A provider's event, passed through.", whole, must("event", anything("")), may("source", text(""))),
	}
}

func fragment() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", MinLength: new(1), Description: "What is added, never empty."}
}
