package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/wire"
)

func TestDecodeRunTakesTheShortForm(t *testing.T) {
	t.Parallel()
	body := []byte(`{"agent": "echo", "content": "hello", "nobody": {"knows": "this"}}`)
	got, err := wire.DecodeRun(body)
	if err != nil {
		t.Fatal(err)
	}
	want := wire.RunRequest{StartRequest: runtime.StartRequest{
		Agent: "echo", Messages: []agui.Message{{Role: agui.RoleUser, Content: "hello"}}, BodyHash: wire.Hash(body),
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(runtime.StartRequest{})); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRunReadsEveryMember(t *testing.T) {
	t.Parallel()
	body := []byte(`{
		"workflowId": "demo", "threadId": "t/1", "runId": "r", "parentRunId": "p", "projectId": "proj",
		"messages": [{"id": "m", "role": "user", "content": "hi"}],
		"state": {"n": 1}, "tools": [{"name": "ask_user", "description": "d", "parameters": {"type": "object"}}],
		"context": [{"description": "d", "value": "v"}], "contextItemIds": ["ctx_1", "ctx_2"],
		"forwardedProps": {"background": true}, "resume": [{"interruptId": "i", "status": "resolved", "payload": {"ok": true}}],
		"metadata": {"k": "v"}, "multitask": "rollback", "rewindTo": "m0", "protocolVersion": "1.0"
	}`)
	got, err := wire.DecodeRun(body)
	if err != nil {
		t.Fatal(err)
	}
	want := wire.RunRequest{
		StartRequest: runtime.StartRequest{
			WorkflowID: "demo", ThreadID: "t/1", RunID: "r", ParentRunID: "p",
			Messages:       []agui.Message{{ID: "m", Role: agui.RoleUser, Content: "hi"}},
			State:          json.RawMessage(`{"n": 1}`),
			Tools:          []agui.Tool{{Name: "ask_user", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}},
			Context:        []agui.Context{{Description: "d", Value: "v"}},
			ContextItemIDs: []string{"ctx_1", "ctx_2"},
			ForwardedProps: json.RawMessage(`{"background":true}`),
			Resume:         []agui.ResumeEntry{{InterruptID: "i", Status: "resolved", Payload: json.RawMessage(`{"ok":true}`)}},
			Metadata:       json.RawMessage(`{"k": "v"}`), Multitask: runtime.RollbackRuns, RewindTo: "m0",
			BodyHash: wire.Hash(body),
		},
		ProjectID: "proj", ProtocolVersion: "1.0",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(runtime.StartRequest{})); diff != "" {
		t.Error(diff)
	}
	if !got.Background() {
		t.Error("forwardedProps.background was not seen")
	}
}

// What the two generations of AG-UI clients send, as they send it.
func TestDecodeRunTakesRunAgentInputOfBothDialects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, body string
		dialect    agui.Projection
		content    string // of the last message
	}{
		{"0.0.59", `{"threadId":"2f1c","runId":"9a","tools":[],"context":[],"forwardedProps":{},"state":{},
			"messages":[{"id":"1","role":"user","content":"hello"}]}`, agui.AGUI0, "hello"},
		{
			"1.0.0", `{"threadId":"2f1c","runId":"9a","protocolVersion":"1.0","tools":[],"context":[],"forwardedProps":{},
			"state":{},"messages":[{"id":"0","role":"assistant","content":"","toolCalls":[{"id":"c","type":"function",
			"function":{"name":"f","arguments":"{}"}}]},{"id":"1","role":"user","content":[{"type":"text","text":"look "},
			{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}},{"type":"text","text":"here"}]}]}`,
			agui.AGUI1, "look \nhere",
		},
		{"binary parts", `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":[{"type":"text","text":"see"},
			{"type":"binary","mimeType":"image/png","data":"AAAA"}]}]}`, agui.AGUI0, "see"},
		{"nulls", `{"threadId":"t","runId":"r","parentRunId":null,"state":null,"tools":null,"context":null,
			"forwardedProps":null,"resume":null,"messages":null,"protocolVersion":null}`, agui.AGUI0, ""},
		{"missing arrays", `{"threadId":"t","runId":"r"}`, agui.AGUI0, ""},
		{"a later version", `{"protocolVersion":"2.3"}`, agui.AGUI1, ""},
		{"a preview", `{"protocolVersion":"1.1.0-rc.1+b2"}`, agui.AGUI1, ""},
		{"no version", `{"protocolVersion":""}`, agui.AGUI0, ""},
		{"an earlier version", `{"protocolVersion":"0.9"}`, agui.AGUI0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := wire.DecodeRun([]byte(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := req.Dialect(); got != test.dialect {
				t.Errorf("dialect %v, want %v", got, test.dialect)
			}
			content := ""
			if n := len(req.Messages); n > 0 {
				content = req.Messages[n-1].Text()
			}
			if content != test.content {
				t.Errorf("last message %q, want %q", content, test.content)
			}
		})
	}
}

func TestDecodeRunRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, body, code, says string }{
		{"nothing", ``, "invalid_json", "empty"},
		{"blanks", " \r\n\t", "invalid_json", "empty"},
		{"no JSON", `{"agent": echo}`, "invalid_json", "not valid JSON"},
		{"half an object", `{"agent": "echo"`, "invalid_json", "not valid JSON"},
		{"trailing garbage", `{"agent": "echo"} x`, "invalid_json", "not valid JSON"},
		{"two objects", `{}{}`, "invalid_json", "not valid JSON"},
		{"a trailing comma", `{"agent": "echo",}`, "invalid_json", "not valid JSON"},
		{"a control character", "{\"agent\": \"a\x01\"}", "invalid_json", "not valid JSON"},
		{"bytes that are not UTF-8", "{\"agent\": \"\xff\"}", "invalid_json", "UTF-8"},
		{"an array", `[]`, "invalid_request", "object"},
		{"a string", `"hello"`, "invalid_request", "object"},
		{"null", `null`, "invalid_request", "object"},
		{"a number", `1`, "invalid_request", "object"},
		{"deep arrays", `{"state": {"a": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`, "invalid_json", "deeper"},
		{"deep objects", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000), "invalid_json", "deeper"},
		{"deep and open", strings.Repeat("[", 1<<20), "invalid_json", "deeper"},
		{"a huge number", `{"state": {"n": 1e999}}`, "invalid_json", "number"},
		{"a long number", `{"state": {"n": ` + strings.Repeat("9", 1<<20) + `}}`, "invalid_json", "number"},
		{"agent", `{"agent": 5}`, "invalid_request", "agent must be a string"},
		{"workflowId", `{"workflowId": {}}`, "invalid_request", "workflowId must be a string"},
		{"threadId", `{"threadId": 1}`, "invalid_request", "threadId must be a string"},
		{"no threadId", `{"threadId": ""}`, "invalid_name", "threadId must be 1 to 200 characters"},
		{"runId", `{"runId": ["r"]}`, "invalid_request", "runId must be a string"},
		{"no runId", `{"runId": ""}`, "invalid_name", "runId must be 1 to 200 characters"},
		{"a word for a version", `{"protocolVersion": "latest"}`, "invalid_request", "protocolVersion must be a version"},
		{"half a version", `{"protocolVersion": "1."}`, "invalid_request", "protocolVersion must be a version"},
		{"parentRunId", `{"parentRunId": true}`, "invalid_request", "parentRunId must be a string"},
		{"content", `{"content": ["x"]}`, "invalid_request", "content must be a string"},
		{"blank content", `{"content": " \n"}`, "invalid_content", "content"},
		{"empty content", `{"content": ""}`, "invalid_content", "content"},
		{"content and messages", `{"content": "x", "messages": []}`, "invalid_request", "Give content or messages, not both"},
		{"messages", `{"messages": {}}`, "invalid_request", "messages must be an array"},
		{"a message", `{"messages": ["hi"]}`, "invalid_request", "messages[0] must be an object"},
		{"a null message", `{"messages": [null]}`, "invalid_request", "messages[0] must be an object"},
		{"a message's id", `{"messages": [{"id": 1, "role": "user", "content": "x"}]}`, "invalid_request", "messages[0].id must be a string"},
		{"a message's role", `{"messages": [{"id": "1", "role": "king", "content": "x"}]}`, "invalid_request", `messages[0].role "king" is no role`},
		{"a message's content", `{"messages": [{"role": "user", "content": 1}]}`, "invalid_request", "messages[0].content must be a string or an array"},
		{"a part", `{"messages": [{"role": "user", "content": [1]}]}`, "invalid_request", "messages[0].content[0] must be an object"},
		{"state", `{"state": [1]}`, "invalid_request", "state must be an object"},
		{"state text", `{"state": "{}"}`, "invalid_request", "state must be an object"},
		{"tools", `{"tools": {"name": "x"}}`, "invalid_request", "tools must be an array"},
		{"a tool", `{"tools": [{"name": 1}]}`, "invalid_request", "tools[0].name must be"},
		{"context", `{"context": "x"}`, "invalid_request", "context must be an array"},
		{"a context", `{"context": [{"description": "d", "value": {}}]}`, "invalid_request", "context[0].value must be"},
		{"contextItemIds", `{"contextItemIds": "ctx"}`, "invalid_request", "contextItemIds must be an array of strings"},
		{"a contextItemId", `{"contextItemIds": ["a", 2]}`, "invalid_request", "contextItemIds must be an array of strings"},
		{"a null contextItemId", `{"contextItemIds": ["a", null]}`, "invalid_request", "contextItemIds[1] must be a string"},
		{"resume", `{"resume": {}}`, "invalid_request", "resume must be an array"},
		{"an answer", `{"resume": [{"interruptId": 1}]}`, "invalid_request", "resume[0].interruptId must be"},
		{"metadata", `{"metadata": []}`, "invalid_request", "metadata must be an object"},
		{"multitask", `{"multitask": 1}`, "invalid_request", "multitask must be a string"},
		{"projectId", `{"projectId": 1}`, "invalid_request", "projectId must be a string"},
		{"rewindTo", `{"rewindTo": {}}`, "invalid_request", "rewindTo must be a string"},
		{"protocolVersion", `{"protocolVersion": 1.0}`, "invalid_request", "protocolVersion must be a string"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := wire.DecodeRun([]byte(test.body))
			refused(t, err, test.code, test.says)
			placed(t, err)
		})
	}
}

// refused checks that err is a refusal with that code, whose sentence holds says.
func refused(t *testing.T, err error, code, says string) {
	t.Helper()
	var e *runtime.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *runtime.Error", err)
	}
	if e.Kind != runtime.KindInvalid || e.Code != code || !strings.Contains(e.Detail, says) {
		t.Errorf("got kind %d, code %q, %q; want code %q and %q", e.Kind, e.Code, e.Detail, code, says)
	}
}

// placed checks that a refusal whose sentence begins with a member of the body points to it.
func placed(t *testing.T, err error) {
	t.Helper()
	var e *runtime.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	path, _, ok := strings.Cut(e.Detail, " must be ")
	if !ok || strings.ContainsAny(path, " -") || strings.HasPrefix(path, "The") {
		return
	}
	if want := "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path); e.Place != want {
		t.Errorf("%q has the place %q, want %q", e.Detail, e.Place, want)
	}
}

func TestDecodeAppend(t *testing.T) {
	t.Parallel()
	got, err := wire.DecodeAppend([]byte(`{"content": "more", "contextItemIds": ["ctx_1"], "role": 5}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runtime.AppendRequest{Content: "more", ContextItemIDs: []string{"ctx_1"}}, got); diff != "" {
		t.Error(diff)
	}
	_, err = wire.DecodeAppend([]byte(`{"content": 1}`))
	refused(t, err, "invalid_request", "content must be a string")
	_, err = wire.DecodeAppend(nil)
	refused(t, err, "invalid_json", "empty")
}

func TestDecodeResume(t *testing.T) {
	t.Parallel()
	got, err := wire.DecodeResume([]byte(`{"messages": 1, "resume": [{"interruptId": "i", "status": "cancelled"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agui.ResumeEntry{{InterruptID: "i", Status: "cancelled"}}, got); diff != "" {
		t.Error(diff)
	}
	for body, says := range map[string]string{
		`{}`:                          "at least one answer",
		`{"resume": []}`:              "at least one answer",
		`{"resume": null}`:            "at least one answer",
		`{"resume": "x"}`:             "resume must be an array",
		`{"resume": [{"status": 1}]}`: "resume[0].status must be",
	} {
		_, err := wire.DecodeResume([]byte(body))
		refused(t, err, "invalid_request", says)
	}
}

func TestBackgroundIsTrueAlone(t *testing.T) {
	t.Parallel()
	for props, want := range map[string]bool{
		`{"background": true}`: true, `{"background": false}`: false, `{"background": "true"}`: false,
		`{"background": 1}`: false, `[true]`: false, `"background"`: false, `null`: false,
	} {
		req, err := wire.DecodeRun([]byte(`{"forwardedProps": ` + props + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := req.Background(); got != want {
			t.Errorf("%s: got %v", props, got)
		}
	}
}

// FuzzDecodeRun checks that any body is either taken or refused as a client's mistake, and that what was
// taken can be stored: it is JSON again.
func FuzzDecodeRun(f *testing.F) {
	for _, seed := range []string{
		`{"agent":"echo","content":"hello"}`,
		`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":[{"type":"text","text":"x"}]}],"state":{}}`,
		`{"state":{"n":1e400}}`, `{"resume":[{"interruptId":"i","status":"resolved","payload":null}]}`,
		`{"contextItemIds":[null]}`, `[[[[`, "{\"a\":\"\xff\"}", `{"tools":[{"parameters":1}]}`, `{"messages":[{"role":"activity"}]}`,
		`{"content":"\ud800","\u0061gent":"x"}`, `{"messages":[{"role":"tool","toolCallId":"c","content":null,"error":"e"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"binary","mimeType":"image/png","id":"x"}]}],"metadata":{"a":-0.0}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := wire.DecodeRun(body)
		if err != nil {
			var e *runtime.Error
			if !errors.As(err, &e) || e.Kind != runtime.KindInvalid || e.Code == "" || e.Detail == "" {
				t.Fatalf("refused with %#v", err)
			}
			return
		}
		if !json.Valid(body) {
			t.Fatal("took what is not JSON")
		}
		_, _ = req.Dialect(), req.Background()
		if _, err := json.Marshal(req.StartRequest); err != nil {
			t.Fatalf("what was taken cannot be encoded: %v", err)
		}
	})
}
