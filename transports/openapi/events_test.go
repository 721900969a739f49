package openapi_test

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/agui/aguitest"
)

var projections = map[string]agui.Projection{
	"SeedEvent": agui.Seed, "AguiEvent": agui.AGUI1, "LegacyEvent": agui.AGUI0, "PublicEvent": agui.Public,
}

// full returns a base with every member that an event may have, including those that make a projection write another form.
func full() agui.Base {
	return agui.Base{
		ThreadID: "t", RunID: "r", Agent: "a", SubagentRunID: "s", Timestamp: 1767225600123,
		Metadata: json.RawMessage(`{"name":"n"}`), RawEvent: json.RawMessage(`{}`),
	}
}

// rich returns events with every member that the random ones lack.
func rich() []agui.Event {
	b := full()
	finished := b
	finished.Metadata = agui.FinishMetadata{Provider: "p", Model: "m", InputTokens: 1, OutputTokens: 2, CachedInputTokens: 1, ReasoningTokens: 1, FinishReason: "stop", ProviderRequestID: "x"}.JSON()
	usage := []agui.TokenUsage{{Provider: "p", Model: "m", InputTokens: 1, OutputTokens: 2, TotalTokens: 3, ReasoningTokens: 1, CachedInputTokens: 1, CacheWriteInputTokens: 1}}
	failed := &agui.OutputError{Code: "c", Message: "m", Retryable: true, Details: json.RawMessage(`{"a":1}`)}
	ask := agui.Interrupt{
		ID: "i", Reason: "input_required", Message: "m", ToolCallID: "c", ResponseSchema: json.RawMessage(`{"type":"object"}`),
		ExpiresAt: "2026-01-01T00:00:00Z", Metadata: json.RawMessage(`{}`), SubagentRunID: "s",
	}
	parts := json.RawMessage(`[{"type":"text","text":"a","id":"p"},{"type":"image","source":{"type":"file","value":"f","provider":"p"},"metadata":{"filename":"x"}}]`)
	messages := []agui.Message{
		{ID: "1", Role: agui.RoleUser, Parts: parts, Name: "n", Metadata: json.RawMessage(`{}`)},
		{ID: "2", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "t", Arguments: "{}", EncryptedValue: "e", Metadata: json.RawMessage(`{}`)}}, SubagentRunID: "s"},
		{ID: "3", Role: agui.RoleTool, ToolCallID: "c", Content: "x", Error: "e"},
		{ID: "4", Role: agui.RoleReasoning, Content: "x", EncryptedValue: "e"},
		{ID: "5", Role: agui.RoleActivity, ActivityType: "plan", Parts: json.RawMessage(`{"n":1}`)},
		{ID: "6", Role: agui.RoleSystem, Content: "x"},
		{ID: "7", Role: agui.RoleDeveloper, Content: "x"},
	}
	input := &agui.RunAgentInput{
		ThreadID: "t", RunID: "r", ProtocolVersion: "1.0", ParentRunID: "q", State: json.RawMessage(`{}`), Messages: messages,
		Tools:          []agui.Tool{{Name: "n", Description: "d", Parameters: json.RawMessage(`{}`), Metadata: json.RawMessage(`{}`)}},
		Context:        []agui.Context{{Description: "d", Value: "v"}},
		ForwardedProps: json.RawMessage(`{}`), Resume: []agui.ResumeEntry{{InterruptID: "i", Status: "resolved", Payload: json.RawMessage(`1`), Metadata: json.RawMessage(`{}`)}},
	}
	return []agui.Event{
		agui.RunStarted{Base: b, AgentID: "a", ProtocolVersion: "1.0", ParentRunID: "q", Input: input},
		agui.RunFinished{Base: finished, Result: json.RawMessage(`{"ok":true}`), Outcome: agui.Outcome{Type: agui.OutcomeInterrupt, Interrupts: []agui.Interrupt{ask}}, Usage: usage},
		agui.RunFinished{Base: full(), Outcome: agui.Outcome{Type: agui.OutcomeSuccess, PendingToolCallIDs: []string{"c"}}},
		agui.RunFinished{Base: full(), Outcome: agui.Outcome{Type: agui.OutcomeCancelled}},
		agui.RunError{Base: b, Message: "m", Code: "c", Usage: usage},
		agui.StepStarted{Base: b, StepName: "s"},
		agui.StepFinished{Base: b, StepName: "s"},
		agui.TextMessageStart{Base: b, MessageID: "m", Role: agui.RoleUser, Name: "n", Stage: "s"},
		agui.TextMessageContent{Base: b, MessageID: "m", Delta: "d"},
		agui.TextMessageEnd{Base: b, MessageID: "m", Output: &agui.WorkerOutput{
			Status: agui.StatusFailed, Answer: "a", KeyPoints: []string{"k"}, ResultType: "t", SuggestedActions: []string{"s"}, Error: failed, UIHints: json.RawMessage(`{}`),
		}},
		agui.ToolCallStart{Base: b, ToolCallID: "c", ToolCallName: "t", ParentMessageID: "m"},
		agui.ToolCallResult{Base: b, MessageID: "m", ToolCallID: "c", Content: "x", Parts: parts, Output: &agui.ToolOutput{
			ToolName: "t", ToolCallID: "c", ToolCallArgs: json.RawMessage(`{}`), Status: agui.StatusFailure, ResultSummary: "x", UIHints: json.RawMessage(`{}`), Error: failed,
		}},
		agui.StateSnapshot{Base: b, Snapshot: json.RawMessage(`[1]`)},
		agui.StateDelta{Base: b, Delta: json.RawMessage(`[{"op":"move","from":"/a","path":"/b"}]`)},
		agui.MessagesSnapshot{Base: b, Messages: messages},
		agui.ActivitySnapshot{Base: b, MessageID: "a", ActivityType: "plan", Content: json.RawMessage(`{}`), Replace: new(false)},
		agui.SubagentStarted{Base: b, Name: "n", Description: "d", ParentSubagentRunID: "p", ParentToolCallID: "c", ParentMessageID: "m"},
		agui.SubagentFinished{Base: b, Result: json.RawMessage(`1`), Outcome: json.RawMessage(`{"type":"success"}`)},
		agui.SubagentError{Base: b, Message: "m", Code: "c"},
		agui.Custom{Base: b, Name: "source-url", Value: json.RawMessage(`"x"`)},
		agui.Custom{Base: b, Name: "n"},
		agui.Raw{Base: b, Event: json.RawMessage(`{}`), Source: "s"},
		agui.Unknown{Base: b, Name: "FUTURE_EVENT"},
	}
}

func TestEventsAreAsDescribedInEveryForm(t *testing.T) {
	t.Parallel()
	s := fetch(t).closed(t)
	data := make([]byte, 8192)
	for i := range data {
		data[i] = byte(rand.N(256))
	}
	for name, p := range projections {
		schema := s.component(t, name)
		seen := make(map[agui.Type]bool)
		events := append(rich(), aguitest.Random(data)...)
		for _, ev := range events {
			b := ev.Common()
			b.ThreadID, b.RunID = "t", "r"
			if ev = agui.Project(ev.WithCommon(b), p); ev == nil {
				continue
			}
			seen[ev.Type()] = true
			validate(t, schema, decode(t, ev.AppendJSON(nil, p)), name)
		}
		for typ := range s.at("components", "schemas", name, "discriminator", "mapping").(object) {
			if !seen[agui.Type(typ)] {
				t.Errorf("%s: no event is of the type %s", name, typ)
			}
		}
	}
}
