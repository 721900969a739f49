package baton_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
)

// An error quotes only a part of the request.
func TestErrors_AreShort(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0"})
	short := func(what, text string) {
		t.Helper()
		if text == "" || len(text) >= 2<<10 {
			t.Errorf("%s: an error of %d bytes: %.200s", what, len(text), text)
		}
	}
	long := strings.Repeat("<", 64<<10) // six bytes each when JSON escapes them
	call := func(tool, arguments string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
	}
	tell := func(what, path, body string) {
		t.Helper()
		res := send(t, http.MethodPost, s.URL()+path, body, "Accept", "application/json, text/event-stream")
		if res.StatusCode < 400 && path != "/mcp" {
			t.Errorf("%s: %s answers %d", what, path, res.StatusCode)
		}
		short(what+", "+path, answer(t, res))
	}
	for what, body := range map[string]string{
		"an agent":  `{"agent":"%[1]s","content":"hi"}`,
		"a thread":  `{"agent":"echo","threadId":"%[1]s","content":"hi"}`,
		"an enum":   `{"agent":"echo","content":"hi","multitask":"%[1]s"}`,
		"a role":    `{"agent":"echo","messages":[{"id":"1","role":"%[1]s","content":"hi"}]}`,
		"a member":  `{"agent":"echo","content":1,"%[1]s":1}`,
		"an answer": `{"agent":"echo","resume":[{"interruptId":"q","status":"%[1]s"}]}`,
	} {
		body = fmt.Sprintf(body, long)
		tell(what, "/api/v1/agent/runs", body)
		tell(what, "/mcp", call("start_agent_run", body))
		c, _ := dial(t, s.URL()+"/api/v1/ws", nil)
		must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"op":"run",`+body[1:])))
		_, text, err := c.ReadMessage()
		must(t, err)
		short(what+" over a socket", string(text))
	}
	tell("a tool", "/mcp", call(long, `{}`))
	tell("a method", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, long))
	tell("a resource", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":%q}}`, long))
	tell("a prompt", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":%q}}`, long))
}
