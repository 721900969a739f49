package agui_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

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
func (tr *transcript) say(method, path, body string) {
	tr.Helper()
	r := tr.do(method, path, body)
	fmt.Fprintf(&tr.text, "-- %s %s --\n", method, path)
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
	const (
		base = "/api/v1/agui/"
		ask  = `{"ask": {"message": "Deploy?"}}`
		tool = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	)
	work := script(`{"reason": "let me see"}, {"say": "hello world"}, {"progress": 0.5, "message": "half"}, ` +
		`{"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "bye"}`)
	for name, tell := range map[string]func(tr *transcript){
		"run": func(tr *transcript) {
			tr.say("POST", base+"scripted", input("main", "first", work, modern))
			tr.say("POST", base+"scripted", input("old", "old-first", work, ""))
			tr.say("POST", base+"scripted/connect", input("main", "joins", "", modern))
			tr.say("POST", base+"scripted/connect", input("old", "joins", "", ""))
		},
		"waiting": func(tr *transcript) {
			tr.say("POST", base+"scripted", input("main", "asks", script(ask), modern))
			tr.say("POST", base+"scripted/connect", input("main", "joins", "", modern))
			tr.say("POST", base+"scripted", input("main", "other", "hello", modern))
			tr.say("POST", base+"scripted", input("pick", "picks", script(`{"tool": "pick", "args": {"n": 3}}`), tool+modern))
			tr.say("POST", base+"scripted/connect", input("pick", "joins", "", modern))
			tr.say("POST", base+"scripted/connect", input("pick", "joins", "", ""))
		},
		"unknown": func(tr *transcript) {
			tr.say("POST", base+"echo/connect", input("nowhere", "joins", "", modern))
			tr.say("POST", base+"echo/connect", `{"runId": "joins"}`)
			tr.say("POST", base+"echo/connect", `{"threadId": "a\u0000b"}`)
			tr.say("POST", base+"nobody/connect", input("nowhere", "joins", "", modern))
			tr.say("POST", base+"nobody", input("main", "first", "hello", ""))
			tr.say("POST", base+"echo", `{"agent": "scripted", "content": "hello"}`)
			tr.say("POST", base+"echo", `{"messages": 1}`)
			tr.say("POST", base+"echo?projectId=other", input("main", "first", "hello", ""))
			tr.say("GET", base+"nobody/capabilities", "")
		},
		"failure": func(tr *transcript) {
			tr.say("POST", base+"scripted", input("main", "bad", script(`{"say": "so far so good"}, {"fail": "no luck", "code": "unlucky"}`), modern))
			tr.say("POST", base+"scripted/connect", input("main", "joins", "", modern))
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
