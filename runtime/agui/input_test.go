package agui_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
)

func TestRunAgentInput_AcceptsVariants(t *testing.T) {
	for in, want := range map[string]agui.RunAgentInput{
		`{}`: {},
		`{"threadId":"t","runId":null,"state":null,"messages":null,"tools":null,"context":null,"forwardedProps":null,"resume":null,"more":1}`: {ThreadID: "t"},
		`{"state": {"a": 1}, "tools":[{"name":"n","description":"d","parameters":null}]}`: {
			State: json.RawMessage(`{"a":1}`), Tools: []agui.Tool{{Name: "n", Description: "d"}},
		},
		`{"messages":[{"id":"m","role":"user","content":[{"type":"binary","mimeType":"image/png","url":"https://x","filename":"f"},{"type":"binary","mimeType":"","id":"h"}]}]}`: {
			Messages: []agui.Message{{ID: "m", Role: agui.RoleUser, Parts: json.RawMessage(
				`[{"type":"image","source":{"type":"url","value":"https://x","mimeType":"image/png"},"metadata":{"filename":"f"}},` +
					`{"type":"document","source":{"type":"file","value":"h","mimeType":"application/octet-stream"}}]`)}},
		},
		`{"messages":[{"id":"m","role":"assistant","content":null,"toolCalls":[{"id":"c","type":"function","function":{"name":"n","arguments":"{}"}}],"name":null,"x":[1]}]}`: {
			Messages: []agui.Message{{ID: "m", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "c", Name: "n", Arguments: "{}"}}, Extra: json.RawMessage(`{"x":[1]}`)}},
		},
		`{"resume":[{"interruptId":"i","status":"resolved","payload":null}]}`: {Resume: []agui.ResumeEntry{{InterruptID: "i", Status: "resolved"}}},
	} {
		var got agui.RunAgentInput
		if err := json.Unmarshal([]byte(in), &got); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
		var again agui.RunAgentInput
		line, err := json.Marshal(got)
		if err == nil {
			err = json.Unmarshal(line, &again)
		}
		if diff := cmp.Diff(want, again); diff != "" || err != nil {
			t.Errorf("%s after a round trip: %v\n%s", in, err, diff)
		}
	}
}

func TestRunAgentInput_NamesInvalidMember(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                          "the request must be a JSON object",
		`{"threadId":7}`:              "threadId: must be a string",
		`{"messages":{}}`:             "messages: must be an array",
		`{"messages":[null]}`:         "messages[0]: must be an object",
		`{"messages":[{"id":"m"}]}`:   `messages[0].role: "" is no role`,
		`{"messages":[{"role":"x"}]}`: `messages[0].role: "x" is no role`,
		`{"messages":[{"role":"user","content":{}}]}`:                                     "messages[0].content: must be a string or an array of parts",
		`{"messages":[{"role":"system","content":[]}]}`:                                   "messages[0].content: must be a string for role system",
		`{"messages":[{"role":"activity","content":"x"}]}`:                                "messages[0].content: must be an object",
		`{"messages":[{"role":"user","content":[{"text":"x"}]}]}`:                         "messages[0].content[0].type: is missing",
		`{"messages":[{"role":"user","content":[{"type":"text","text":1}]}]}`:             "messages[0].content[0].text: must be a string",
		`{"messages":[{"role":"assistant","toolCalls":[{"function":{"arguments":{}}}]}]}`: "messages[0].toolCalls[0].function.arguments: must be a string",
		`{"messages":[{"role":"assistant","toolCalls":[{"function":1}]}]}`:                "messages[0].toolCalls[0].function: must be an object",
		`{"tools":[{"name":[]}]}`:                                                         "tools[0].name: must be of type string, not array",
		`{"context":[{"value":1}]}`:                                                       "context[0].value: must be of type string, not number",
		`{"resume":[{"metadata":1}]}`:                                                     "resume[0].metadata: must be an object",
	} {
		var got agui.RunAgentInput
		err := json.Unmarshal([]byte(in), &got)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got error %v, want %s", in, err, want)
		}
	}
}

func TestMessage_Text(t *testing.T) {
	parts := json.RawMessage(`[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","value":"u"}},{"type":"text","text":"b"}]`)
	m := agui.Message{Role: agui.RoleUser, Parts: parts}
	if got := m.Text(); got != "a\nb" {
		t.Errorf("Text = %q", got)
	}
	want := []agui.Part{{Type: "text", Text: "a"}, {Type: "image", Source: &agui.Source{Type: "url", Value: "u"}}, {Type: "text", Text: "b"}}
	if diff := cmp.Diff(want, m.ContentParts()); diff != "" {
		t.Errorf("ContentParts (-want +got):\n%s", diff)
	}
	plain := agui.Message{Role: agui.RoleUser, Content: "x"}
	if diff := cmp.Diff([]agui.Part{{Type: "text", Text: "x"}}, plain.ContentParts()); diff != "" {
		t.Errorf("ContentParts (-want +got):\n%s", diff)
	}
}

func TestMergeMetadata(t *testing.T) {
	for _, tt := range [][3]string{
		{``, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, ``, `{"a":1}`},
		{`{"a":1,"b":{"x":1}}`, `{"b":2,"c":null}`, `{"a":1,"b":2,"c":null}`},
		{`{"\u0061":1}`, `{"a":2}`, `{"a":2}`},
		{`{ }`, `{ "a\"" : 1 }`, `{"a\"":1}`},
		{`{"a":1,"a":2,"b":3}`, `{"a":4,"a":5,"c":6,"c":7}`, `{"a":5,"a":5,"b":3,"c":6,"c":7}`},
	} {
		if got := string(agui.MergeMetadata(json.RawMessage(tt[0]), json.RawMessage(tt[1]))); got != tt[2] {
			t.Errorf("%s + %s = %s, want %s", tt[0], tt[1], got, tt[2])
		}
	}
}

func TestOutput_MarshalsWithoutNulls(t *testing.T) {
	for _, v := range []any{agui.WorkerOutput{}, agui.ToolOutput{UIHints: json.RawMessage("null")}, agui.Message{Role: agui.RoleUser}} {
		line, err := json.Marshal(v)
		if err != nil || strings.Contains(string(line), "null") {
			t.Errorf("%T: %s, %v", v, line, err)
		}
	}
}
