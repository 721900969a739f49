package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
)

// logged is ev as the log gives it back: without the ids that columns hold.
func logged(ev agui.Event) agui.Event {
	b := ev.Common()
	b.ThreadID, b.RunID = "", ""
	return ev.WithCommon(b)
}

func TestDecode_ReadsStoredEncoding(t *testing.T) {
	for _, s := range samples() {
		line := s.ev.AppendJSON(nil, agui.Stored)
		got, err := agui.Decode(line)
		if err != nil {
			t.Errorf("%s: %v\n%s", s.name, err, line)
			continue
		}
		b := got.Common()
		b.ThreadID, b.RunID = "thread", "run"
		if named, err := agui.DecodeStored(line, "thread", "run"); err != nil || cmp.Diff(got.WithCommon(b), named) != "" {
			t.Errorf("%s of a thread and a run: %+v, %v", s.name, named, err)
		}
		want := logged(s.ev)
		if e, ok := want.(agui.Custom); ok && e.Value == nil {
			e.Value = json.RawMessage("null")
			want = e
		}
		if e, ok := want.(agui.Unknown); ok { // its unknown members are its body
			e.Body, e.Extra = json.RawMessage(`{"x":{"y":1},"future":[1,null]}`), nil
			want = e
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, diff)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     agui.Event
	}{
		{
			"null optionals are absent",
			`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":null,"metadata":null,"timestamp":null,"rawEvent":null}`,
			agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n"},
		},
		{
			"white space and escapes", "\n{ \"delta\" : \"\\u0041\\n\" ,\n\"type\":\"TEXT_MESSAGE_CONTENT\", \"messageId\":\"m\"}\n",
			agui.TextMessageContent{MessageID: "m", Delta: "A\n"},
		},
		{
			"hot, with escapes", `{"type":"TOOL_CALL_ARGS","agent":"a","toolCallId":"c","delta":"{\"a\":\"\\\\\"}","subagentRunId":"s","timestamp":12}`,
			agui.ToolCallArgs{Base: agui.Base{Agent: "a", SubagentRunID: "s", Timestamp: 12}, ToolCallID: "c", Delta: `{"a":"\\"}`},
		},
		{
			"hot, with a member it does not know", `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","new":{"a": 1}}`,
			agui.TextMessageContent{Base: agui.Base{Extra: json.RawMessage(`{"new":{"a":1}}`)}, MessageID: "m", Delta: "x"},
		},
		{
			"float timestamp", `{"type":"STEP_STARTED","stepName":"s","timestamp":12.75}`,
			agui.StepStarted{Base: agui.Base{Timestamp: 12}, StepName: "s"},
		},
		{
			"never a stage on TEXT_MESSAGE_END", `{"type":"TEXT_MESSAGE_END","messageId":"m","stage":"x","model":"y"}`,
			agui.TextMessageEnd{MessageID: "m"},
		},
		{
			"content parts", `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":[{"type":"text","text":"a"}],"role":"tool"}`,
			agui.ToolCallResult{MessageID: "m", ToolCallID: "c", Content: "a", Parts: json.RawMessage(`[{"type":"text","text":"a"}]`)},
		},
		{
			"outcome null", `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":null,"result":null}`,
			agui.RunFinished{Base: agui.Base{ThreadID: "t", RunID: "r"}},
		},
		{
			"unknown", `{"type":"NEW_THING","threadId":"t","a":[1, 2]}`,
			agui.Unknown{Base: agui.Base{ThreadID: "t"}, Name: "NEW_THING", Body: json.RawMessage(`{"a":[1,2]}`)},
		},
		{
			"invalid UTF-8", "{\"type\":\"STEP_STARTED\",\"stepName\":\"a\xff\",\"x\":\"b\xff\"}",
			agui.StepStarted{Base: agui.Base{Extra: json.RawMessage(`{"x":"b` + "\uFFFD" + `"}`)}, StepName: "a\uFFFD"},
		},
		{
			"lone surrogate", `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud800"}`,
			agui.TextMessageContent{MessageID: "m", Delta: "\uFFFD"},
		},
		{
			"a repeated member", `{"type":"STEP_STARTED","stepName":"a","stepName":"b"}`,
			agui.StepStarted{StepName: "b"},
		},
	} {
		got, err := agui.Decode([]byte(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDecode_RefusesInvalidEvents(t *testing.T) {
	for in, want := range map[string]string{
		``:                 "not valid JSON",
		`[]`:               "event name",
		`{}`:               "event name",
		`{"type":1}`:       "type: must be a string",
		`{"type":"lower"}`: "no event name",
		`{"type":"A` + strings.Repeat("B", 64) + `"}`:                                               "no event name",
		`{"type":"STEP_STARTED","stepName":1}`:                                                      "stepName: must be a string",
		`{"type":"STEP_STARTED","stepName":"s","timestamp":"x"}`:                                    "timestamp: must be an integer",
		`{"type":"STEP_STARTED","stepName":"s","metadata":[]}`:                                      "metadata: must be an object",
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a` + "\n" + `"}`:                   "not valid JSON",
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"`:                                "not valid JSON",
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":7}`:                                 "delta: must be a string",
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","timestamp":01}`:                "not valid JSON",
		`{"type":"STATE_DELTA","delta":{}}`:                                                         "delta: must be an array",
		`{"type":"STATE_SNAPSHOT"}`:                                                                 "snapshot: is missing",
		`{"type":"CUSTOM","name":"x"}`:                                                              "value: is missing",
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"p","content":"x"}`:             "content: must be an object",
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","content":{},"replace":1}`:                     "replace: must be a boolean",
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":7}]}}`:            "outcome.interrupts.id: must be of type string, not number",
		`{"type":"RUN_ERROR","message":"m","usage":[{"inputTokens":"x"}]}`:                          "usage[0].inputTokens: must be of type integer",
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"user","content":"x"},{"id":7}]}`: "messages[1].id: must be a string",
		`{"type":"MESSAGES_SNAPSHOT","messages":[7]}`:                                               "messages[0]: must be an object",
		`{"type":"RUN_STARTED","input":{"messages":[{"id":"a","role":"user","content":7}]}}`:        "input.messages[0].content: must be a string or an array of parts",
		`{"type":"TEXT_MESSAGE_END","messageId":"m","workerAgentOutput":{"error":{"details":1}}}`:   "workerAgentOutput.error.details: must be an object",
	} {
		ev, err := agui.Decode([]byte(in))
		if err == nil {
			t.Errorf("Decode(%s) = %#v, want an error", in, ev)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%s): got error %q, want it to say %q", in, err, want)
		}
	}
}

func TestDecode_CopiesItsInput(t *testing.T) {
	for _, s := range samples() {
		line := s.ev.AppendJSON(nil, agui.Stored)
		want, err := agui.Decode(append([]byte(nil), line...))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := agui.Decode(line)
		for i := range line {
			line[i] = 'x'
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s changed with its input:\n%s", s.name, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		f.Add(s.ev.AppendJSON(nil, agui.Stored))
		f.Add(s.ev.AppendJSON(nil, agui.Seed))
		f.Add(s.ev.AppendJSON(nil, agui.AGUI1))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ev, err := agui.Decode(data)
		if err != nil {
			return
		}
		want := logged(ev)
		line := ev.AppendJSON(nil, agui.Stored)
		if !json.Valid(line) || strings.ContainsAny(string(line), "\n\r") {
			t.Fatalf("not one line of JSON: %q", line)
		}
		got, err := agui.Decode(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round trip (-want +got):\n%s", diff)
		}
		if again := got.AppendJSON(nil, agui.Stored); string(again) != string(line) {
			t.Fatalf("second encoding\n got %s\nwant %s", again, line)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	bs := agui.Base{Agent: "writer", Timestamp: 1767225600123}
	for _, s := range []sample{
		{"content", agui.TextMessageContent{Base: bs, MessageID: "0190b7a2-0000-7000-8000-000000000001", Delta: " token"}},
		{"content with escapes", agui.TextMessageContent{Base: bs, MessageID: "0190b7a2-0000-7000-8000-000000000001", Delta: "\n\"to\""}},
		{"args", agui.ToolCallArgs{Base: bs, ToolCallID: "call_0190b7a2", Delta: `{"q":`}},
		{"start", agui.TextMessageStart{Base: bs, MessageID: "0190b7a2-0000-7000-8000-000000000001", Role: agui.RoleAssistant}},
	} {
		line := s.ev.AppendJSON(nil, agui.Stored)
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := agui.Decode(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
