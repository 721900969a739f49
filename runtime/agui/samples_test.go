package agui_test

import (
	"encoding/json"

	"github.com/batonrun/baton/runtime/agui"
)

// sample is an event with a name for goldens and failures.
type sample struct {
	name string
	ev   agui.Event
}

// base returns the members that the runtime adds to every event of a run.
func base() agui.Base {
	return agui.Base{ThreadID: "th-1", RunID: "run-1", Agent: "writer", Timestamp: 1767225600123}
}

// inSub is base for an event of a sub-agent.
func inSub() agui.Base {
	b := base()
	b.Agent, b.SubagentRunID = "critic", "sub-1"
	return b
}

// rich is base with everything an event may carry.
func rich() agui.Base {
	b := base()
	b.Metadata = json.RawMessage(`{"trace":"abc","agent":"own"}`)
	b.RawEvent = json.RawMessage(`{"provider":"x"}`)
	b.Extra = json.RawMessage(`{"future":[1,null]}`)
	return b
}

// named is inSub with the metadata a sub-agent's end keeps in the log.
func named() agui.Base {
	b := inSub()
	b.Metadata = json.RawMessage(`{"name":"critic"}`)
	return b
}

func messages() []agui.Message {
	return []agui.Message{
		{ID: "m-1", Role: agui.RoleUser, Content: "hi <you> & \"me\"\n"},
		{ID: "m-2", Role: agui.RoleUser, Parts: json.RawMessage(`[{"type":"text","text":"see","id":"p1"},` +
			`{"type":"image","source":{"type":"url","value":"https://x/y.png","mimeType":"image/png"},"metadata":{"filename":"y.png"}},` +
			`{"type":"document","source":{"type":"file","value":"file-1","provider":"openai"}},` +
			`{"type":"audio","source":{"type":"data","value":"AAAA","mimeType":"audio/wav"}}]`)},
		{ID: "m-3", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{
			{ID: "c-1", Name: "search", Arguments: `{"q":"x"}`, Metadata: json.RawMessage(`{"agent":"writer"}`)},
		}, SubagentRunID: "sub-1", Metadata: json.RawMessage(`{"agent":"writer","workerAgentOutput":{"status":"success","answer":""}}`)},
		{
			ID: "m-4", Role: agui.RoleTool, ToolCallID: "c-1", Parts: json.RawMessage(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`),
			Metadata: json.RawMessage(`{"toolAgentOutput":{"tool_name":"search","tool_call_id":"c-1","status":"success","result_summary":"a"}}`),
		},
		{ID: "m-5", Role: agui.RoleReasoning, Content: "hm", EncryptedValue: "e"},
		{ID: "m-6", Role: agui.RoleActivity, ActivityType: "plan", Parts: json.RawMessage(`{"steps":[]}`)},
		{ID: "m-7", Role: agui.RoleSystem, Content: "be kind"},
		{ID: "m-8", Role: agui.RoleDeveloper, Content: "be brief", Name: "dev"},
		{
			ID: "m-9", Role: agui.RoleAssistant, Content: "done", Extra: json.RawMessage(`{"future":1}`),
			Metadata: json.RawMessage(`{"workerAgentOutput":{"status":"partial_success","answer":"done"}}`),
		},
		{ID: "m-10", Role: agui.RoleTool, ToolCallID: "c-2", Content: "no", Error: "denied"},
	}
}

func input() *agui.RunAgentInput {
	return &agui.RunAgentInput{
		ThreadID:        "th-1",
		RunID:           "run-1",
		ProtocolVersion: "1.0",
		State:           json.RawMessage(`{"n":1}`),
		Messages:        messages(),
		Tools:           []agui.Tool{{Name: "pick", Description: "picks", Parameters: json.RawMessage(`{"type":"object"}`)}},
		Context:         []agui.Context{{Description: "tz", Value: "UTC"}},
		ForwardedProps:  json.RawMessage(`{"background":true}`),
		Resume:          []agui.ResumeEntry{{InterruptID: "i-1", Status: "resolved", Payload: json.RawMessage(`{"approved":true}`)}},
	}
}

func usage() []agui.TokenUsage {
	return []agui.TokenUsage{{Provider: "openai", Model: "gpt", InputTokens: 10, OutputTokens: 5, TotalTokens: 15, CacheWriteInputTokens: 2}}
}

// samples has every event type, and every shape a projection changes.
func samples() []sample {
	finished := base()
	finished.Metadata = agui.FinishMetadata{Provider: "openai", Model: "gpt", InputTokens: 10, OutputTokens: 5, FinishReason: "stop"}.JSON()
	foreign := base()
	foreign.Metadata = json.RawMessage(`{"provider":"openai","note":"not the seed's shape"}`)
	traced := base()
	traced.Metadata = json.RawMessage(`{"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"}`)
	interrupt := agui.Interrupt{
		ID: "i-1", Reason: "input_required", Message: "Deploy?", ToolCallID: "c-1",
		ResponseSchema: json.RawMessage(`{"type":"object"}`), ExpiresAt: "2026-01-01T00:00:00Z", SubagentRunID: "sub-1",
	}
	failed := &agui.ToolOutput{
		ToolName: "search", ToolCallID: "c-1", ToolCallArgs: json.RawMessage(`{"q":"x"}`), Status: agui.StatusFailure,
		ResultSummary: "timed out", Error: &agui.OutputError{Code: "timeout", Message: "after 5 s", Retryable: true},
	}
	partial := &agui.WorkerOutput{
		Status: agui.StatusPartialSuccess, Answer: "hel", KeyPoints: []string{"a", "b"}, ResultType: "text",
		SuggestedActions: []string{"retry"}, UIHints: json.RawMessage(`{"w":1}`), Error: &agui.OutputError{Code: "cancelled", Message: "cut"},
	}
	return []sample{
		{"run started, traced", agui.RunStarted{Base: traced, AgentID: "writer"}},
		{"run started, bare", agui.RunStarted{Base: base()}},
		{"run started", agui.RunStarted{Base: base(), AgentID: "writer", ProtocolVersion: "1.0", ParentRunID: "run-0", Input: input()}},
		{"run started, empty input", agui.RunStarted{Base: base(), AgentID: "writer", Input: &agui.RunAgentInput{ThreadID: "th-1", RunID: "run-1"}}},
		{"run finished, bare", agui.RunFinished{Base: base()}},
		{"run finished", agui.RunFinished{Base: finished, Result: json.RawMessage(`{"ok":true}`), Outcome: agui.Outcome{Type: agui.OutcomeSuccess}, Usage: usage()}},
		{"run finished, foreign metadata", agui.RunFinished{Base: foreign}},
		{"run finished, pending calls", agui.RunFinished{Base: base(), Outcome: agui.Outcome{Type: agui.OutcomeSuccess, PendingToolCallIDs: []string{"c-1"}}}},
		{"run finished, interrupt", agui.RunFinished{Base: base(), Outcome: agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: []agui.Interrupt{interrupt}}}},
		{"run finished, cancelled", agui.RunFinished{Base: finished, Outcome: agui.Outcome{Type: agui.OutcomeCancelled}, Usage: usage()}},
		{"run error", agui.RunError{Base: base(), Message: "boom", Code: "x", Usage: usage()}},
		{"step started", agui.StepStarted{Base: base(), StepName: "plan"}},
		{"step started, in a sub-agent", agui.StepStarted{Base: inSub(), StepName: "plan"}},
		{"step finished", agui.StepFinished{Base: base(), StepName: "plan"}},
		{"step finished, in a sub-agent", agui.StepFinished{Base: inSub(), StepName: "plan"}},
		{"text start", agui.TextMessageStart{Base: base(), MessageID: "m-1", Role: agui.RoleAssistant, Name: "W", Stage: "draft"}},
		{"text start, bare", agui.TextMessageStart{Base: agui.Base{}, MessageID: "m-1"}},
		{"text start, in a sub-agent", agui.TextMessageStart{Base: inSub(), MessageID: "m-1", Role: agui.RoleAssistant}},
		{"text start, rich", agui.TextMessageStart{Base: rich(), MessageID: "m-1", Role: agui.RoleUser, Stage: "draft"}},
		{"text content", agui.TextMessageContent{Base: base(), MessageID: "m-1", Delta: "a \"b\"\\\n\t\x01<é>\u2028"}},
		{"text content, rich", agui.TextMessageContent{Base: rich(), MessageID: "m-1", Delta: "x"}},
		{"text end", agui.TextMessageEnd{Base: base(), MessageID: "m-1", Output: &agui.WorkerOutput{Status: agui.StatusSuccess, Answer: "hello"}}},
		{"text end, partial", agui.TextMessageEnd{Base: base(), MessageID: "m-1", Output: partial}},
		{"text end, without output", agui.TextMessageEnd{Base: rich(), MessageID: "m-1"}},
		{"tool start", agui.ToolCallStart{Base: base(), ToolCallID: "c-1", ToolCallName: "search", ParentMessageID: "m-1"}},
		{"tool args", agui.ToolCallArgs{Base: base(), ToolCallID: "c-1", Delta: `{"q":`}},
		{"tool end", agui.ToolCallEnd{Base: base(), ToolCallID: "c-1"}},
		{"tool result", agui.ToolCallResult{
			Base: base(), MessageID: "m-2", ToolCallID: "c-1", Content: "found",
			Output: &agui.ToolOutput{ToolName: "search", ToolCallID: "c-1", Status: agui.StatusSuccess, ResultSummary: "found"},
		}},
		{"tool result, failed", agui.ToolCallResult{Base: base(), MessageID: "m-2", ToolCallID: "c-1", Content: "timed out", Output: failed}},
		{"tool result, parts", agui.ToolCallResult{
			Base: base(), MessageID: "m-2", ToolCallID: "c-1", Content: "a\nb",
			Parts: json.RawMessage(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`),
		}},
		{"state snapshot", agui.StateSnapshot{Base: base(), Snapshot: json.RawMessage(`{"n":1,"x":null}`)}},
		{"state snapshot, no object", agui.StateSnapshot{Base: base(), Snapshot: json.RawMessage(`[1]`)}},
		{"state delta", agui.StateDelta{Base: base(), Delta: json.RawMessage(`[{"op":"replace","path":"/n","value":2}]`)}},
		{"state delta, whole document", agui.StateDelta{Base: base(), Delta: json.RawMessage(`[{"op":"replace","path":"","value":{}}]`)}},
		{"messages snapshot", agui.MessagesSnapshot{Base: base(), Messages: messages()}},
		{"messages snapshot, empty", agui.MessagesSnapshot{Base: base()}},
		{"activity snapshot", agui.ActivitySnapshot{Base: base(), MessageID: "a-1", ActivityType: "plan", Content: json.RawMessage(`{"steps":[]}`), Replace: new(false)}},
		{"activity delta", agui.ActivityDelta{Base: base(), MessageID: "a-1", ActivityType: "plan", Patch: json.RawMessage(`[{"op":"add","path":"/steps/-","value":1}]`)}},
		{"reasoning start", agui.ReasoningStart{Base: base(), MessageID: "r-1"}},
		{"reasoning message start", agui.ReasoningMessageStart{Base: base(), MessageID: "r-1"}},
		{"reasoning content", agui.ReasoningMessageContent{Base: base(), MessageID: "r-1", Delta: "hm"}},
		{"reasoning message end", agui.ReasoningMessageEnd{Base: base(), MessageID: "r-1"}},
		{"reasoning end", agui.ReasoningEnd{Base: base(), MessageID: "r-1"}},
		{"reasoning encrypted", agui.ReasoningEncryptedValue{Base: base(), Subtype: "message", EntityID: "m-1", EncryptedValue: "zz"}},
		{"sub-agent started", agui.SubagentStarted{Base: inSub(), Name: "critic", Description: "reads", ParentSubagentRunID: "sub-0", ParentToolCallID: "c-1", ParentMessageID: "m-1"}},
		{"sub-agent finished", agui.SubagentFinished{Base: named(), Result: json.RawMessage(`1`), Outcome: json.RawMessage(`{"type":"suspended","interruptIds":["i-1"]}`)}},
		{"sub-agent error", agui.SubagentError{Base: named(), Message: "boom", Code: "x"}},
		{"custom", agui.Custom{Base: base(), Name: "node-progress", Value: json.RawMessage(`{"nodeId":"n","progress":0.5,"message":"half"}`)}},
		{"custom, public", agui.Custom{Base: base(), Name: "source-url", Value: json.RawMessage(`"https://x"`)}},
		{"custom, without value", agui.Custom{Base: base(), Name: "log-reset"}},
		{"raw", agui.Raw{Base: base(), Event: json.RawMessage(`{"a":1}`), Source: "openai"}},
		{"unknown", agui.Unknown{Base: rich(), Name: "FUTURE_EVENT", Body: json.RawMessage(`{"x":{"y":1}}`)}},
	}
}

var projections = []struct {
	name string
	p    agui.Projection
}{
	{"stored", agui.Stored},
	{"seed", agui.Seed},
	{"agui1", agui.AGUI1},
	{"agui0", agui.AGUI0},
	{"public", agui.Public},
}
