package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/batonrun/baton/transports/transporttest"
)

// transcript is a list of requests and answers, with masks for values that differ from run to run.
type transcript struct {
	*server
	text bytes.Buffer
	ids  func(string) string
}

var (
	aTime      = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z"`)
	aDuration  = regexp.MustCompile(`"durationMs": \d+`)
	aCursor    = regexp.MustCompile(`"nextCursor": "[\w-]+"`)
	inACursor  = regexp.MustCompile(`cursor=[\w-]+`)
	markedTime = `"<time>"`
)

func (tr *transcript) mask(s string) string {
	s = aTime.ReplaceAllString(tr.ids(s), markedTime)
	s = aDuration.ReplaceAllString(s, `"durationMs": "<ms>"`)
	s = aCursor.ReplaceAllString(s, `"nextCursor": "<cursor>"`)
	return inACursor.ReplaceAllString(s, "cursor=<cursor>")
}

// say sends a request and appends it and its answer.
func (tr *transcript) say(method, path, body string, header ...string) answered {
	tr.Helper()
	var sent any
	if body != "" {
		sent = body
	}
	a := tr.do(method, path, sent, header...)
	fmt.Fprintf(&tr.text, "-- %s %s --\n", method, tr.mask(path))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&tr.text, "> %s: %s\n", header[i], header[i+1])
	}
	if body != "" {
		fmt.Fprintf(&tr.text, "> %s\n", tr.mask(body))
	}
	fmt.Fprintf(&tr.text, "< %d %s\n", a.Status, a.Header.Get("Content-Type"))
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(a.Body), "", "  ") == nil && a.Body != "" {
		tr.text.WriteString(tr.mask(pretty.String()) + "\n")
	}
	return a
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	s := serve(t)
	tr := &transcript{server: s, ids: transporttest.IDMask()}

	a := tr.say("POST", runs, `{"agent": "scripted", "threadId": "main", "contextItemIds": ["ctx_1", "ctx_2"], "content": "{\"do\": [{\"say\": \"hello\"}, {\"progress\": 0.5, \"message\": \"half\"}, {\"tool\": \"calculator\", \"args\": {\"expression\": \"6*7\"}}]}"}`)
	id := as[run](a, 202).RunID
	s.await(id, "COMPLETED")
	path := runs + "/" + id
	tr.say("GET", path, "")
	tr.say("GET", path+"/steps", "")
	tr.say("GET", path+"/node-states", "")
	tr.say("GET", path+"/messages?limit=1", "")
	tr.say("GET", path+"/messages", "")
	tr.say("POST", path+"/cancel", "")

	tr.say("POST", path+"/messages", `{"content": "Can you provide more details?", "contextItemIds": ["ctx_1", "ctx_2"]}`, "Idempotency-Key", "k-1")
	s.await(id, "COMPLETED")
	tr.say("POST", path+"/messages", `{"content": "Can you provide more details?", "contextItemIds": ["ctx_1", "ctx_2"]}`, "Idempotency-Key", "k-1")
	tr.say("GET", path, "")
	tr.say("GET", path+"/steps?limit=1", "")

	tr.say("POST", runs, `{"agent": "scripted", "threadId": "a/b", "runId": "ask/1", "parentRunId": "p", "content": "{\"do\": [{\"ask\": {\"message\": \"Deploy?\", \"schema\": {\"type\": \"object\"}}}]}"}`)
	path = runs + "/ask%2F1"
	r := s.await("ask/1", "WAITING")
	tr.say("GET", path, "")
	tr.say("DELETE", path, "")
	tr.say("POST", path+"/events/paid", `{"order": 1}`, "Idempotency-Key", "k-2")
	tr.say("POST", path+"/events/paid", `{"order": 1}`, "Idempotency-Key", "k-2")
	tr.say("POST", path+"/events/paid", `{"order": 2}`, "Idempotency-Key", "k-2")
	tr.say("POST", path+"/events/not%20paid", "")
	tr.say("POST", path+"/events/paid", "{")
	tr.say("POST", path+"/resume", `{"resume": []}`)
	tr.say("POST", path+"/resume", `{"resume": [{"interruptId": "`+r.Interrupts[0].ID+`", "status": "resolved", "payload": {"approved": true}}]}`)
	s.await("ask/1", "COMPLETED")
	tr.say("POST", path+"/resume", `{"resume": [{"interruptId": "`+r.Interrupts[0].ID+`", "status": "resolved", "payload": {"approved": true}}]}`)

	tr.say("POST", runs, `{"agent": "scripted", "runId": "failing", "content": "{\"do\": [{\"fail\": \"boom\", \"code\": \"x\"}]}"}`)
	s.await("failing", "FAILED")
	tr.say("GET", runs+"/failing", "")
	tr.say("GET", runs+"/failing/steps", "")
	tr.say("GET", runs+"/failing/node-states", "")

	s.start(map[string]any{"agent": "scripted", "runId": "long", "content": `{"do": [{"tool": "sleep", "args": {"ms": 60000}}]}`})
	tr.say("POST", runs+"/long/cancel", "")
	tr.say("POST", runs+"/long/messages", `{"content": "too late"}`)
	tr.say("POST", runs+"/long/events/paid", "")
	tr.say("GET", runs+"?status=CANCELLED&limit=1&count=true", "")
	tr.say("DELETE", runs+"/long", "")
	tr.say("GET", runs+"/long", "")
	tr.say("GET", runs+"?limit=1&threadId=a%2Fb", "")
	tr.say("GET", runs+"?limit=0", "")
	tr.say("PUT", runs, `{}`)
	tr.say("GET", "/api/v1/workflows", "")
	transporttest.Golden(t, "agent-runs", tr.text.String())
}
