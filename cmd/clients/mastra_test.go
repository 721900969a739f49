package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/runtime/agui"
)

// An agent made with Mastra, behind Mastra's adapter, works as a remote agent: its text, its tool, the client's tool, and its usage.
func TestMastra_AsRemoteAgent(t *testing.T) {
	t.Parallel()
	needs(t, "mastra")
	p := &pair{near: startProgram(t, testBinary, "REMOTE_URL="+startMaker(t, "mastra")), thread: "main"}

	hello := p.turn(t, object{"content": "hello"})
	p.check(t, hello, "you said hello, and 1 things in all success")
	if end := hello[len(hello)-1].(agui.RunFinished); len(end.Usage) != 1 || end.Usage[0].Provider != "made-here" || end.Usage[0].TotalTokens != 7 {
		t.Errorf("usage %+v", end.Usage)
	}
	p.check(t, p.turn(t, object{"content": `call double {"n":21}`}), `call:double result:{"doubled":42} it gave {"doubled":42} success`)

	tools := []object{{"name": "pick", "description": "Pick", "parameters": object{"type": "object", "properties": object{"of": object{"type": "number"}}}}}
	first := p.turn(t, object{"content": `call pick {"of":2}`, "tools": tools})
	end, ok := first[len(first)-1].(agui.RunFinished)
	if !ok || len(end.Outcome.PendingToolCallIDs) != 1 {
		t.Fatalf("got %s", describe(first))
	}
	p.check(t, p.turn(t, object{"tools": tools, "messages": []object{
		{"id": "answer", "role": "tool", "toolCallId": end.Outcome.PendingToolCallIDs[0], "content": "red"},
	}}), "it gave red success")
	p.check(t, p.turn(t, object{"content": "bye"}), "you said bye, and 4 things in all success")

	// A suspended tool asks; the next turns have its call and result neither twice nor without arguments.
	asked := p.turn(t, object{"content": `call book {"city":"Rome"}`})
	end, ok = asked[len(asked)-1].(agui.RunFinished)
	if !ok || len(end.Outcome.Interrupts) != 1 {
		t.Fatalf("got %s", describe(asked))
	}
	p.check(t, p.turn(t, object{"resume": []object{{"interruptId": end.Outcome.Interrupts[0].ID, "status": "resolved", "payload": object{"yes": true}}}}),
		`result:{"city":"Rome","booked":true} it gave {"city":"Rome","booked":true} success`)
	for n := range 2 {
		p.check(t, p.turn(t, object{"content": "again"}), fmt.Sprintf("you said again, and %d things in all success", 6+n))
	}
}

// startMaker starts the AG-UI server in a directory and returns its URL.
func startMaker(t *testing.T, dir string) string {
	t.Helper()
	addr := cmdtest.Address()
	_, port, _ := strings.Cut(addr, ":")
	maker := exec.CommandContext(t.Context(), "node", "server.mjs")
	maker.Dir, maker.Env = dir, append(os.Environ(), "PORT="+port, "MASTRA_TELEMETRY_DISABLED=1")
	maker.Stderr = t.Output()
	must(t, maker.Start())
	t.Cleanup(func() { _ = maker.Wait() })
	url := "http://" + addr + "/"
	until(t, "listening", func() bool {
		res, err := http.Post(url, "application/json", strings.NewReader(`{"threadId":"x","runId":"x","state":{},"messages":[{"id":"x","role":"user","content":"x"}],"tools":[],"context":[]}`))
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	return url
}
