package sse_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

var update = flag.Bool("update", false, "write the golden files anew")

// transcript is what was asked and, frame by frame, answered. Ids are masked in the order they appear.
type transcript struct {
	*server
	text  bytes.Buffer
	names map[string]string
}

var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (tr *transcript) mask(s string) string {
	return anID.ReplaceAllStringFunc(s, func(id string) string {
		if tr.names[id] == "" {
			tr.names[id] = fmt.Sprintf("<id %d>", len(tr.names)+1)
		}
		return tr.names[id]
	})
}

// say sends a request and writes down what came back.
func (tr *transcript) say(method, path, body string, header ...string) {
	tr.Helper()
	r := tr.do(method, path, body, header...)
	fmt.Fprintf(&tr.text, "-- %s %s --\n", method, path)
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&tr.text, "> %s: %s\n", header[i], header[i+1])
	}
	if body != "" {
		fmt.Fprintf(&tr.text, "> %s\n", body)
	}
	fmt.Fprintf(&tr.text, "< %s\n", r.Status)
	for _, name := range []string{"Content-Type", "Cache-Control", "X-Accel-Buffering", "Connection"} {
		if v := r.Header.Get(name); v != "" {
			fmt.Fprintf(&tr.text, "< %s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&tr.text, "%s\n", tr.mask(r.all()))
}

func TestTranscripts(t *testing.T) {
	const script = `{"agent": "scripted", "threadId": "main", "runId": "first", "content": "{\"do\": [` +
		`{\"reason\": \"let me see\"}, {\"say\": \"hello world\"}, {\"progress\": 0.5, \"message\": \"half\"}, ` +
		`{\"tool\": \"calculator\", \"args\": {\"expression\": \"6*7\"}}, {\"state\": {\"n\": 1}}, {\"say\": \"bye\"}]}"}`
	for name, tell := range map[string]func(tr *transcript){
		"events": func(tr *transcript) {
			tr.start(script)
			tr.status("first", runtime.Completed)
			tr.say("GET", "/api/v1/agent/runs/main/events", "")
			tr.say("GET", "/api/v1/agent/runs/main/events", "", "Last-Event-ID", "20")
			tr.say("GET", "/api/v1/agent/runs/main/events?after_event_id=latest", "")
			tr.say("GET", "/api/v1/agent/runs/main/events", "", "Last-Event-ID", "1000")
			tr.say("GET", "/api/v1/agent/runs/nowhere/events", "")
		},
		"run": func(tr *transcript) {
			tr.say("POST", "/api/v1/agent/runs", script, "Accept", stream)
			tr.say("POST", "/api/v1/agent/runs", strings.Replace(script, "{", `{"protocolVersion": "1.0", `, 1), "Accept", stream)
			tr.say("POST", "/api/v1/agent/runs", `{"threadId": "main", "runId": "second", "protocolVersion": "1.0", `+
				`"content": "{\"do\": [{\"ask\": {\"message\": \"Deploy?\"}}]}"}`, "Accept", stream)
		},
		"failure": func(tr *transcript) {
			tr.say("POST", "/api/v1/agent/runs", `{"agent": "scripted", "threadId": "main", "runId": "bad", `+
				`"content": "{\"do\": [{\"say\": \"so far so good\"}, {\"fail\": \"no luck\", \"code\": \"unlucky\"}]}"}`, "Accept", stream)
			tr.say("GET", "/api/v1/agent/runs/main/events", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transcript{server: serve(t, transports.StreamConfig{}), names: make(map[string]string)}
			tell(tr)
			path := filepath.Join("testdata", name+".txtar")
			if *update {
				if err := os.WriteFile(path, tr.text.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), tr.text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
