package agui_test

import (
	"testing"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestTranscripts(t *testing.T) {
	t.Parallel()
	const (
		base = "/api/v1/agui/"
		ask  = `{"ask": {"message": "Deploy?"}}`
		tool = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	)
	work := script(`{"reason": "let me see"}, {"say": "hello world"}, {"progress": 0.5, "message": "half"}, ` +
		`{"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "bye"}`)
	for name, tell := range map[string]func(tr *transporttest.Transcript){
		"run": func(tr *transporttest.Transcript) {
			tr.Say("POST", base+"scripted", input("main", "first", work, modern))
			tr.Say("POST", base+"scripted", input("old", "old-first", work, ""))
			tr.Say("POST", base+"scripted/connect", input("main", "joins", "", modern))
			tr.Say("POST", base+"scripted/connect", input("old", "joins", "", ""))
		},
		"waiting": func(tr *transporttest.Transcript) {
			tr.Say("POST", base+"scripted", input("main", "asks", script(ask), modern))
			tr.Say("POST", base+"scripted/connect", input("main", "joins", "", modern))
			tr.Say("POST", base+"scripted", input("main", "other", "hello", modern))
			tr.Say("POST", base+"scripted", input("pick", "picks", script(`{"tool": "pick", "args": {"n": 3}}`), tool+modern))
			tr.Say("POST", base+"scripted/connect", input("pick", "joins", "", modern))
			tr.Say("POST", base+"scripted/connect", input("pick", "joins", "", ""))
		},
		"unknown": func(tr *transporttest.Transcript) {
			tr.Say("POST", base+"echo/connect", input("nowhere", "joins", "", modern))
			tr.Say("POST", base+"echo/connect", `{"runId": "joins"}`)
			tr.Say("POST", base+"echo/connect", `{"threadId": "a\u0000b"}`)
			tr.Say("POST", base+"nobody/connect", input("nowhere", "joins", "", modern))
			tr.Say("POST", base+"nobody", input("main", "first", "hello", ""))
			tr.Say("POST", base+"echo", `{"agent": "scripted", "content": "hello"}`)
			tr.Say("POST", base+"echo", `{"messages": 1}`)
			tr.Say("POST", base+"echo?projectId=other", input("main", "first", "hello", ""))
			tr.Say("GET", base+"nobody/capabilities", "")
		},
		"failure": func(tr *transporttest.Transcript) {
			tr.Say("POST", base+"scripted", input("main", "bad", script(`{"say": "so far so good"}, {"fail": "no luck", "code": "unlucky"}`), modern))
			tr.Say("POST", base+"scripted/connect", input("main", "joins", "", modern))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := serve(t, transports.StreamConfig{}).Transcript()
			tell(tr)
			tr.Golden(name)
		})
	}
}
