package baton_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// Every door refuses a tool with an invalid schema and a reference to a missing attachment, names their places, and stores nothing.
func TestDoors_RefuseStrangeSchemasAndAttachments(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Database: "sqlite:" + sqlitetest.New(t)})
	check := func(where, text, code, place string) {
		t.Helper()
		var got struct{ Detail, Code, Place string }
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Detail == "" || got.Code != code || got.Place != place {
			t.Errorf("%s: got %s, want %s at %s", where, text, code, place)
		}
	}
	attached := func(list string) string {
		return `{"agent":"echo","threadId":"t","runId":"r","messages":[{"id":"a","role":"assistant","content":"hello"},` +
			`{"id":"b","role":"user","content":"hi","metadata":{"attachments":` + list + `}}],"tools":[],"context":[],"state":{},"forwardedProps":{}}`
	}
	offered := func(schema string) string {
		return `{"agent":"echo","threadId":"t","runId":"r","messages":[{"id":"b","role":"user","content":"hi"}],"context":[],"state":{},"forwardedProps":{},` +
			`"tools":[{"name":"one","description":"","parameters":{"type":"object"}},{"name":"two","description":"","parameters":` + schema + `}]}`
	}
	said := func(message string) string {
		return `{"agent":"echo","threadId":"t","runId":"r","messages":[{"id":"a","role":"user","content":"hi"},` + message +
			`],"tools":[],"context":[],"state":{},"forwardedProps":{}}`
	}
	const list, schema = "/messages/1/metadata/attachments", "/tools/1/parameters"
	for _, c := range []struct{ body, code, place string }{
		{attached(`{"path":"p"}`), "invalid_message", list},
		{attached(`"p"`), "invalid_message", list},
		{attached(`[null]`), "invalid_message", list + "/0"},
		{attached(`[{"path":"p"},5]`), "invalid_message", list + "/1"},
		{attached(`[{"filename":"p"}]`), "invalid_message", list + "/0"},
		{attached(`[{"path":["p"]}]`), "invalid_message", list + "/0"},
		{attached(`[{"path":"p","mimeType":{}}]`), "invalid_message", list + "/0"},
		{offered(`{"properties":{"a":null}}`), "invalid_tool", schema},
		{offered(`{"required":5}`), "invalid_tool", schema},
		{offered(`{"title":{}}`), "invalid_tool", schema},
		{offered(`{"$ref":"#"}`), "invalid_tool", schema},
		{offered(`{"$ref":"https://example.com/schema"}`), "invalid_tool", schema},
		{offered(`"object"`), "invalid_tool", schema},
		{said(`{"id":"b","role":"user","parts":[{"type":"text","text":"hi"}]}`), "invalid_message", "/messages/1/parts"},
		{said(`{"id":"b","role":"user","content":[{"type":"input_text","text":"hi"}]}`), "invalid_message", "/messages/1/content/0/type"},
		{said(`{"id":"b","role":"user","content":[{"type":"text","text":"hi"},{"type":"input_image","image":"x"}]}`), "invalid_message", "/messages/1/content/1/type"},
		{said(`{"id":"b","role":"assistant","content":"","tool_calls":[{"id":"c"}]}`), "invalid_message", "/messages/1/tool_calls"},
		{said(`{"id":"b","role":"assistant","function_call":{"name":"f"}}`), "invalid_message", "/messages/1/function_call"},
		{said(`{"id":"b","role":"tool","content":"42","tool_call_id":"c"}`), "invalid_message", "/messages/1/tool_call_id"},
		{said(`{"id":"b","role":"user","text":"hi"}`), "invalid_content", "/messages/1/content"},
		{said(`{"id":"b","role":"user","content":[]}`), "invalid_content", "/messages/1/content"},
		{said(`{"id":"b","role":"system","content":" "}`), "invalid_content", "/messages/1/content"},
		{said(`{"id":"b","role":"assistant","refusal":"no"}`), "invalid_content", "/messages/1/content"},
	} {
		for _, path := range []string{"/api/v1/agent/runs", "/api/v1/agui/echo", "/api/copilotkit/agent/echo/run"} {
			res := send(t, http.MethodPost, s.URL()+path, c.body)
			if res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s answers %d to %s", path, res.StatusCode, c.body)
			}
			check(path, answer(t, res), c.code, c.place)
		}
		whole := `{"method":"agent/run","params":{"agentId":"echo"},"body":` + c.body + `}`
		check("CopilotKit's one path", answer(t, send(t, http.MethodPost, s.URL()+"/api/copilotkit", whole)), c.code, c.place)
		socket, _ := dial(t, s.URL()+"/api/v1/ws", nil)
		must(t, socket.WriteMessage(websocket.TextMessage, []byte(`{"op":"run",`+c.body[1:])))
		_, frame, err := socket.ReadMessage()
		must(t, err)
		check("a socket", string(frame), c.code, c.place)
	}
	refused := answer(t, send(t, http.MethodPost, s.URL()+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_run",`+
		`"arguments":{"agent":"echo","messages":[{"role":"user","content":"hi","metadata":{"attachments":[5]}}]}}}`, "Accept", "application/json, text/event-stream"))
	if !strings.Contains(refused, `\"code\":\"invalid_message\",\"place\":\"/messages/0/metadata/attachments/0\"`) {
		t.Errorf("MCP: got %s", refused)
	}
	var runs struct{ Total int }
	if err := json.Unmarshal([]byte(answer(t, send(t, http.MethodGet, s.URL()+"/api/projects/default/agent-runs?count=true", ""))), &runs); err != nil || runs.Total != 0 {
		t.Errorf("refused requests have created %d runs, %v", runs.Total, err)
	}
}

// Valid references are accepted. Messages that the thread already has are not validated again.
func TestDoors_TakeSchemasAndRememberedAttachments(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Database: "sqlite:" + sqlitetest.New(t)})
	for i, body := range []string{
		`{"agent":"echo","threadId":"t","messages":[{"id":"a","role":"user","content":"hi","metadata":{"attachments":null}}],"tools":[{"name":"one"},{"name":"two","parameters":{}}]}`,
		`{"agent":"echo","threadId":"t","messages":[{"id":"a","role":"user","content":"hi","metadata":{"attachments":5}},{"id":"b","role":"user","content":"again","metadata":{"attachments":[]}}]}`,
		`{"agent":"echo","threadId":"t","messages":[{"id":"c","role":"user","content":"more"}],"tools":[{"name":"mail","parameters":{"type":"object","properties":{"to":{"type":"string","pattern":"^(?!\\.)[a-z.]+$"}}}}]}`,
	} {
		if res := send(t, http.MethodPost, s.URL()+"/api/v1/agent/runs", body); res.StatusCode/100 != 2 {
			t.Errorf("request %d: %s", i, answer(t, res))
		}
	}
}
