package sse_test

import (
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// transcript is a list of requests and answers.
type transcript struct {
	*server
	*transporttest.Transcript
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	const script = `{"agent": "scripted", "threadId": "main", "runId": "first", "content": "{\"do\": [` +
		`{\"reason\": \"let me see\"}, {\"say\": \"hello world\"}, {\"progress\": 0.5, \"message\": \"half\"}, ` +
		`{\"tool\": \"calculator\", \"args\": {\"expression\": \"6*7\"}}, {\"state\": {\"n\": 1}}, {\"say\": \"bye\"}]}"}`
	for name, tell := range map[string]func(tr *transcript){
		"events": func(tr *transcript) {
			tr.Start(script)
			tr.Await("first", runtime.Completed)
			tr.Say("GET", "/api/v1/agent/runs/main/events", "")
			tr.Say("GET", "/api/v1/agent/runs/main/events", "", "Last-Event-ID", "20")
			tr.Say("GET", "/api/v1/agent/runs/main/events?after_event_id=latest", "")
			tr.Say("GET", "/api/v1/agent/runs/main/events", "", "Last-Event-ID", "1000")
			tr.Say("GET", "/api/v1/agent/runs/nowhere/events", "")
		},
		"run": func(tr *transcript) {
			tr.Say("POST", "/api/v1/agent/runs", script, "Accept", stream)
			tr.Say("POST", "/api/v1/agent/runs", strings.Replace(script, "{", `{"protocolVersion": "1.0", `, 1), "Accept", stream)
			tr.Say("POST", "/api/v1/agent/runs", `{"threadId": "main", "runId": "second", "protocolVersion": "1.0", `+
				`"content": "{\"do\": [{\"ask\": {\"message\": \"Deploy?\"}}]}"}`, "Accept", stream)
		},
		"failure": func(tr *transcript) {
			tr.Say("POST", "/api/v1/agent/runs", `{"agent": "scripted", "threadId": "main", "runId": "bad", `+
				`"content": "{\"do\": [{\"say\": \"so far so good\"}, {\"fail\": \"no luck\", \"code\": \"unlucky\"}]}"}`, "Accept", stream)
			tr.Say("GET", "/api/v1/agent/runs/main/events", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{})
			tr := &transcript{s, s.Transcript()}
			tell(tr)
			tr.Golden(name)
		})
	}
}
