package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/agui/aguitest"
)

// of is the base of an event of a sub-agent, with its name.
func of(id, name string) agui.Base {
	b := agui.Base{SubagentRunID: id}
	if name != "" {
		b.Metadata = json.RawMessage(`{"name":"` + name + `"}`)
	}
	return b
}

func TestVerifier(t *testing.T) {
	start := agui.RunStarted{}
	text := agui.TextMessageStart{MessageID: "m"}
	call := agui.ToolCallStart{ToolCallID: "c", ToolCallName: "t"}
	callEnd := agui.ToolCallEnd{ToolCallID: "c"}
	sub := agui.SubagentStarted{Base: of("s", ""), Name: "n"}
	result := agui.ToolCallResult{MessageID: "r", ToolCallID: "c"}
	patch := func(s string) agui.Event { return agui.StateDelta{Delta: json.RawMessage(s)} }
	for _, tt := range []struct {
		name   string
		events []agui.Event
		want   string // what the last event's error says; "" when it is legal
	}{
		{"empty span", []agui.Event{start, agui.RunFinished{}}, ""},
		{"only an error", []agui.Event{agui.RunError{}}, ""},
		{"two spans", []agui.Event{start, agui.RunFinished{}, start, agui.RunError{}, start}, ""},
		{"no start", []agui.Event{text}, "RUN_STARTED"},
		{"finish first", []agui.Event{agui.RunFinished{}}, "RUN_STARTED"},
		{"start twice", []agui.Event{start, start}, "started already"},
		{"after the end", []agui.Event{start, agui.RunFinished{}, text}, "has ended"},
		{"an error after the end", []agui.Event{start, agui.RunFinished{}, agui.RunError{}}, "has ended"},
		{"an error with things open", []agui.Event{start, text, sub, agui.RunError{}, start, text}, ""},

		{"text", []agui.Event{start, text, agui.TextMessageContent{MessageID: "m", Delta: "x"}, agui.TextMessageEnd{MessageID: "m"}, agui.RunFinished{}}, ""},
		{"text again under its id", []agui.Event{start, text, agui.TextMessageEnd{MessageID: "m"}, text}, ""},
		{"text without id", []agui.Event{start, agui.TextMessageStart{}}, "messageId is empty"},
		{"text of role tool", []agui.Event{start, agui.TextMessageStart{MessageID: "m", Role: agui.RoleTool}}, "role"},
		{"second text", []agui.Event{start, text, agui.TextMessageStart{MessageID: "n"}}, `"m" is still open`},
		{"content of another text", []agui.Event{start, text, agui.TextMessageContent{MessageID: "n", Delta: "x"}}, "not open"},
		{"content after the end", []agui.Event{start, text, agui.TextMessageEnd{MessageID: "m"}, agui.TextMessageContent{MessageID: "m", Delta: "x"}}, "not open"},
		{"patch of an activity without its type", []agui.Event{start, agui.ActivityDelta{MessageID: "a", Patch: json.RawMessage(`[]`)}}, "activityType"},
		{"empty delta", []agui.Event{start, text, agui.TextMessageContent{MessageID: "m"}}, "empty"},
		{"finish with a text open", []agui.Event{start, text, agui.RunFinished{}}, "still open"},

		{"call", []agui.Event{start, call, agui.ToolCallArgs{ToolCallID: "c", Delta: "{}"}, callEnd, result, agui.RunFinished{}}, ""},
		{"call that waits", []agui.Event{start, call, callEnd, agui.RunFinished{}, start, result}, ""},
		{"call without name", []agui.Event{start, agui.ToolCallStart{ToolCallID: "c"}}, "toolCallName"},
		{"call twice", []agui.Event{start, call, callEnd, call}, "made before"},
		{"call repeated in the answer's span", []agui.Event{start, call, callEnd, agui.RunFinished{}, start, call}, "made before"},
		{"call that a message has", []agui.Event{agui.RunStarted{Input: &agui.RunAgentInput{Messages: []agui.Message{
			{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "t"}}},
		}}}, call}, "made before"},
		{"empty args", []agui.Event{start, call, agui.ToolCallArgs{ToolCallID: "c"}}, "empty"},
		{"args after the end", []agui.Event{start, call, callEnd, agui.ToolCallArgs{ToolCallID: "c", Delta: "x"}}, "not open"},
		{"finish with a call open", []agui.Event{start, call, agui.RunFinished{}}, "still open"},
		{"result of an unknown call", []agui.Event{start, result}, "not known"},
		{"result twice", []agui.Event{start, call, callEnd, result, result}, "already"},
		{"result in a later span again", []agui.Event{start, call, callEnd, result, agui.RunFinished{}, start, result}, "already"},
		{"text of another in a later span", []agui.Event{
			start, text,
			agui.TextMessageEnd{MessageID: "m"},
			agui.RunFinished{},
			start, sub,
			agui.TextMessageStart{Base: of("s", ""), MessageID: "m"},
		}, "run's own agent"},
		{"result without messageId", []agui.Event{start, call, callEnd, agui.ToolCallResult{ToolCallID: "c"}}, "messageId"},

		{"steps", []agui.Event{start, agui.StepStarted{StepName: "a"}, agui.StepStarted{StepName: "b"}, agui.StepFinished{StepName: "a"}, agui.StepFinished{StepName: "b"}, agui.RunFinished{}}, ""},
		{"step twice", []agui.Event{start, agui.StepStarted{StepName: "a"}, agui.StepStarted{StepName: "a"}}, "already"},
		{"step of a sub-agent under the same name", []agui.Event{start, agui.StepStarted{StepName: "a"}, sub, agui.StepStarted{Base: of("s", ""), StepName: "a"}}, ""},
		{"step ended by another", []agui.Event{start, agui.StepStarted{StepName: "a"}, sub, agui.StepFinished{Base: of("s", ""), StepName: "a"}}, "not open"},
		{"finish with a step open", []agui.Event{start, agui.StepStarted{StepName: "a"}, agui.RunFinished{}}, "still open"},

		{"sub-agent", []agui.Event{start, sub, agui.SubagentFinished{Base: of("s", "n")}, agui.RunFinished{}}, ""},
		{"sub-agent that failed", []agui.Event{start, sub, agui.SubagentError{Base: of("s", "n"), Message: "x"}, agui.RunFinished{}}, ""},
		{"sub-agent without its name at the end", []agui.Event{start, sub, agui.SubagentFinished{Base: of("s", "")}}, "metadata.name"},
		{"sub-agent twice", []agui.Event{start, sub, agui.SubagentFinished{Base: of("s", "n")}, sub}, "has ended"},
		{"sub-agent again in the next span", []agui.Event{start, sub, agui.SubagentFinished{Base: of("s", "n")}, agui.RunFinished{}, start, sub}, ""},
		{"sub-agent of a parent that is not there", []agui.Event{start, agui.SubagentStarted{Base: of("s", ""), Name: "n", ParentSubagentRunID: "p"}}, "not open"},
		{"event of a sub-agent that is not there", []agui.Event{start, agui.TextMessageStart{Base: of("s", ""), MessageID: "m"}}, "not open"},
		{"sub-agent ends before its text", []agui.Event{start, sub, agui.TextMessageStart{Base: of("s", ""), MessageID: "m"}, agui.SubagentFinished{Base: of("s", "n")}}, "still open"},
		{"finish with a sub-agent open", []agui.Event{start, sub, agui.RunFinished{}}, "still open"},
		{"sub-agent goes on with the parent's text", []agui.Event{start, sub, text, agui.TextMessageContent{Base: of("s", ""), MessageID: "m", Delta: "x"}}, "run's own agent"},
		{"call of another than its message's owner", []agui.Event{
			start, sub, text,
			agui.TextMessageEnd{MessageID: "m"},
			agui.ToolCallStart{Base: of("s", ""), ToolCallID: "c", ToolCallName: "t", ParentMessageID: "m"},
		}, "parent message"},
		{"unknown suspended outcome", []agui.Event{start, sub, agui.SubagentFinished{Base: of("s", "n"), Outcome: json.RawMessage(`{"type":"x"}`)}}, "outcome"},

		{"reasoning", []agui.Event{
			start,
			agui.ReasoningStart{MessageID: "r"},
			agui.ReasoningMessageStart{MessageID: "r"},
			agui.ReasoningMessageContent{MessageID: "r", Delta: "x"},
			agui.ReasoningMessageEnd{MessageID: "r"},
			agui.ReasoningEnd{MessageID: "r"},
			agui.RunFinished{},
		}, ""},
		{"reasoning content that is not open", []agui.Event{start, agui.ReasoningStart{MessageID: "r"}, agui.ReasoningMessageContent{MessageID: "r", Delta: "x"}}, "not open"},
		{"finish with reasoning open", []agui.Event{start, agui.ReasoningStart{MessageID: "r"}, agui.RunFinished{}}, "still open"},

		{"state", []agui.Event{start, agui.StateSnapshot{Snapshot: json.RawMessage(`{}`)}, patch(`[{"op":"add","path":"/a~0b","value":null},{"op":"move","from":"/a","path":"/b"}]`)}, ""},
		{"patch that is none", []agui.Event{start, patch(`{}`)}, "not a JSON array"},
		{"patch of the whole document", []agui.Event{start, patch(`[{"op":"replace","path":"","value":1}]`)}, "whole document"},
		{"patch of a prototype", []agui.Event{start, patch(`[{"op":"add","path":"/a/__proto__/b","value":1}]`)}, "refused by clients"},
		{"patch from a prototype", []agui.Event{start, patch(`[{"op":"copy","from":"/constructor/prototype","path":"/a"}]`)}, "refused by clients"},
		{"patch from the whole document", []agui.Event{start, patch(`[{"op":"copy","from":"","path":"/a"}]`)}, "whole document"},
		{"patch without value", []agui.Event{start, patch(`[{"op":"add","path":"/a"}]`)}, "without value"},
		{"patch with an unknown op", []agui.Event{start, patch(`[{"op":"merge","path":"/a"}]`)}, "RFC 6902"},
		{"patch with a bad pointer", []agui.Event{start, patch(`[{"op":"remove","path":"a"}]`)}, "slash"},
		{"patch with a bad escape", []agui.Event{start, patch(`[{"op":"remove","path":"/a~2"}]`)}, "~"},

		{"snapshot with what is open", []agui.Event{start, text, call, agui.MessagesSnapshot{Messages: []agui.Message{
			{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "t"}}},
		}}}, ""},
		{"snapshot that gives what is open to another", []agui.Event{
			start, sub,
			agui.TextMessageStart{Base: of("s", ""), MessageID: "m"},
			agui.MessagesSnapshot{Messages: []agui.Message{{ID: "m", Role: agui.RoleAssistant}}},
			agui.TextMessageEnd{Base: of("s", ""), MessageID: "m"},
		}, "run's own agent"},
		{"snapshot without the open text", []agui.Event{start, text, agui.MessagesSnapshot{}}, "which is open"},
		{"snapshot without the open call", []agui.Event{start, call, agui.MessagesSnapshot{}}, "which is open"},
		{"snapshot without reasoning", []agui.Event{start, agui.ReasoningMessageStart{MessageID: "r"}, agui.MessagesSnapshot{}}, ""},
		{"snapshot with other reasoning", []agui.Event{
			start,
			agui.ReasoningMessageStart{MessageID: "r"},
			agui.MessagesSnapshot{Messages: []agui.Message{{ID: "q", Role: agui.RoleReasoning}}},
		}, "which is open"},

		{"custom without value", []agui.Event{start, agui.Custom{Name: "x"}}, "value"},
		{"invalid JSON", []agui.Event{start, agui.Custom{Name: "x", Value: json.RawMessage(`{`)}}, "not valid JSON"},
		{"invalid JSON deep inside", []agui.Event{start, text, agui.TextMessageEnd{MessageID: "m", Output: &agui.WorkerOutput{UIHints: json.RawMessage(`{]`)}}}, "not valid JSON"},
		{"metadata that is no object", []agui.Event{start, agui.StepStarted{Base: agui.Base{Metadata: json.RawMessage(`[]`)}, StepName: "a"}}, "metadata"},
		{"shorthand", []agui.Event{start, agui.Unknown{Name: agui.TypeTextMessageChunk}}, "shorthand"},
		{"withdrawn", []agui.Event{start, agui.Unknown{Name: "THINKING_START"}}, "REASONING"},
		{"an unknown event of a known type", []agui.Event{start, agui.Unknown{Name: agui.TypeCustom}}, "struct"},
		{"unknown", []agui.Event{start, agui.Unknown{Name: "FUTURE"}}, ""},
		{"interrupt without interrupts", []agui.Event{start, agui.RunFinished{Outcome: agui.Outcome{Type: agui.OutcomeInterrupt}}}, "interrupts"},
		{"unknown outcome", []agui.Event{start, agui.RunFinished{Outcome: agui.Outcome{Type: "paused"}}}, "outcome"},
		{"foreign metadata at the end", []agui.Event{start, agui.RunFinished{Base: of("", "x")}}, "FinishMetadata"},
		{"the seed's metadata at the end", []agui.Event{start, agui.RunFinished{Base: agui.Base{Metadata: agui.FinishMetadata{}.JSON()}}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v agui.Verifier
			last := len(tt.events) - 1
			for _, ev := range tt.events[:last] {
				if err := v.Add(ev); err != nil {
					t.Fatal(err)
				}
			}
			err := v.Add(tt.events[last])
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && err == nil:
				t.Errorf("accepted, want an error with %q", tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("got error %q, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestVerifier_Owe(t *testing.T) {
	var v agui.Verifier
	v.Owe("c1", "c2")
	for _, ev := range []agui.Event{
		agui.RunStarted{},
		agui.ToolCallStart{ToolCallID: "c3", ToolCallName: "t"},
		agui.ToolCallEnd{ToolCallID: "c3"},
		agui.ToolCallResult{MessageID: "r", ToolCallID: "c2"},
	} {
		if err := v.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"c1", "c3"}, v.Unanswered()); diff != "" {
		t.Errorf("Unanswered (-want +got):\n%s", diff)
	}
}

func TestClosers_CloseInnermostFirst(t *testing.T) {
	var v agui.Verifier
	for _, ev := range []agui.Event{
		agui.RunStarted{},
		agui.StepStarted{StepName: "plan"},
		agui.SubagentStarted{Base: agui.Base{SubagentRunID: "s", Agent: "critic"}, Name: "critic"},
		agui.StepStarted{Base: of("s", ""), StepName: "read"},
		agui.ReasoningStart{Base: of("s", ""), MessageID: "r"},
		agui.ReasoningMessageStart{MessageID: "r2"},
		agui.ToolCallStart{Base: of("s", ""), ToolCallID: "c", ToolCallName: "t"},
		agui.TextMessageStart{Base: agui.Base{Agent: "writer"}, MessageID: "m"},
	} {
		if err := v.Add(ev); err != nil {
			t.Fatal(err)
		}
	}
	if id, ok := v.OpenText(); id != "m" || !ok {
		t.Errorf("OpenText = %q, %v", id, ok)
	}
	end := of("s", "critic")
	end.Agent = "critic"
	want := []agui.Event{
		agui.TextMessageEnd{Base: agui.Base{Agent: "writer"}, MessageID: "m"},
		agui.ReasoningMessageEnd{MessageID: "r2"},
		agui.ReasoningEnd{Base: of("s", ""), MessageID: "r"},
		agui.ToolCallEnd{Base: of("s", ""), ToolCallID: "c"},
		agui.StepFinished{Base: of("s", ""), StepName: "read"},
		agui.SubagentFinished{Base: end},
		agui.StepFinished{StepName: "plan"},
	}
	if diff := cmp.Diff(want, v.Closers()); diff != "" {
		t.Errorf("Closers (-want +got):\n%s", diff)
	}
}

func FuzzVerifier(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 4, 0, 13, 0, 15, 4, 5, 0, 31, 1, 30, 255})
	f.Add([]byte{28, 255, 15, 0, 0, 0x11, 17, 0, 0, 1, 5, 1, 7, 0x11, 18, 0, 19, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 1024)]
		var v agui.Verifier
		add := func(ev agui.Event) {
			open := v.Closers()
			err := v.Add(ev)
			if err != nil && cmp.Diff(open, v.Closers()) != "" {
				t.Fatalf("refused %#v (%v) and changed", ev, err)
			}
		}
		add(agui.RunStarted{})
		for _, ev := range aguitest.Random(data) {
			add(ev)
		}
		if !v.Started() {
			return
		}
		for _, ev := range append(v.Closers(), agui.RunFinished{}) {
			if err := v.Add(ev); err != nil {
				t.Fatalf("closing: %v", err)
			}
		}
		if n := len(v.Closers()); n != 0 || v.Started() {
			t.Fatalf("%d things are open after the end", n)
		}
	})
}

func BenchmarkVerifier(b *testing.B) {
	var v agui.Verifier
	for _, ev := range []agui.Event{agui.RunStarted{}, agui.TextMessageStart{MessageID: "m"}} {
		if err := v.Add(ev); err != nil {
			b.Fatal(err)
		}
	}
	var ev agui.Event = agui.TextMessageContent{Base: base(), MessageID: "m", Delta: "x"}
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Add(ev); err != nil {
			b.Fatal(err)
		}
	}
}
