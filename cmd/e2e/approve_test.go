package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

const approving = `
agents:
  worker: {$PROVIDER, model: m, tools: [tools.*]}
mcp:
  tools: {$TOOLS, approval: [note]}
`

// twoNotes is a model that makes two calls at once and then reports their results.
func twoNotes(p prompt) llmtest.Script {
	if p.turn() == 0 {
		return llmtest.Script{Steps: slices.Concat(note(0, "note", 1), note(1, "note", 2))}
	}
	return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}}
}

// An approval stays open across restarts. Edits and refusals apply to their own call, in any order of the answers.
func TestApproval_SurvivesRestarts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		w := declare(t, db, approving, twoNotes)
		run := w.ask("worker", "approve", "go")
		before := w.waits(run)
		for _, end := range []func(){w.stop, w.kill} {
			end()
			w.up()
		}
		after := w.waits(run)
		if len(after) != 2 || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("the questions are %v before the restarts, %v after", before, after)
		}
		if len(w.noted()) > 0 || len(w.provider.Requests()) != 1 {
			t.Fatalf("%d requests to the model, the notes are %q", len(w.provider.Requests()), w.noted())
		}
		payloads := map[float64]string{1: `{"approved": false}`, 2: `{"approved": true, "editedArgs": {"n": 7}}`}
		slices.Reverse(after)
		for i := range after { // one by one
			status, out := w.answer(run, after[i:i+1], func(q map[string]any) string {
				return payloads[q["metadata"].(map[string]any)["input"].(map[string]any)["n"].(float64)]
			})
			if status != http.StatusAccepted {
				t.Fatalf("resume: %d %v", status, out)
			}
			w.kill()
			w.up()
		}
		if row := w.ended(run); row["status"] != "COMPLETED" {
			t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		reqs := w.provider.Requests()
		p := asked(reqs[len(reqs)-1])
		if err := p.err(); err != nil || len(reqs) != 2 {
			t.Errorf("%d requests to the model, the last is wrong: %v", len(reqs), err)
		}
		said := map[string]string{}
		for _, m := range p.Messages {
			for _, c := range m.ToolCalls {
				said[c.ID] = c.Function.Arguments
			}
			if m.Role == "tool" {
				said[said[m.ToolCallID]] = fmt.Sprint(m.Content)
			}
		}
		// The last kill may interrupt the call that is approved, which is then not made again.
		interrupted := strings.Contains(said[`{"n":2}`], "interrupted")
		if !strings.Contains(said[`{"n":1}`], "denied") || !interrupted && !strings.Contains(said[`{"n":2}`], "noted 7") {
			t.Errorf("the prompt has %v", said)
		}
		if got := w.noted(); !slices.Equal(got, []string{"7"}) && !(interrupted && len(got) == 0) {
			t.Errorf("the notes are %q", got)
		}
		checkLog(t, "approve", w.all("approve"))
	})
}

func TestApproval_ExpiresWhileServerIsDown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		w := declare(t, db, approving+"timeouts: {approval: 1s}\n", twoNotes)
		run := w.ask("worker", "expire", "go")
		w.until("asked", func() bool { return len(w.provider.Requests()) == 1 })
		w.kill()
		w.up()
		if row := w.ended(run); row["status"] != "COMPLETED" {
			t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		reqs := w.provider.Requests()
		if p := asked(reqs[len(reqs)-1]); p.err() != nil || p.said("tool", "denied") != 2 || len(w.noted()) > 0 {
			t.Errorf("the notes are %q, the prompt is %v", w.noted(), p)
		}
		checkLog(t, "expire", w.all("expire"))
	})
}

// answer answers questions of a run with payloads.
func (s *server) answer(run string, questions []map[string]any, payload func(map[string]any) string) (int, map[string]any) {
	s.t.Helper()
	var list []map[string]any
	for _, q := range questions {
		list = append(list, map[string]any{"interruptId": q["id"], "status": "resolved", "payload": json.RawMessage(payload(q))})
	}
	return s.call("POST", "/api/projects/default/agent-runs/"+run+"/resume", map[string]any{"resume": list})
}

// A message that is appended while the model answers is in the next prompt.
func TestAppend_ReachesNextPrompt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		said := make(chan struct{})
		w := declare(t, db, strings.ReplaceAll(approving, ", approval: [note]", ""), func(p prompt) llmtest.Script {
			if p.turn() == 0 && p.said("user", "blue") == 0 {
				steps := append([]llmtest.Step{llmtest.Text("I begin "), llmtest.Stall(said)}, note(0, "note", 1)...)
				return llmtest.Script{Steps: steps}
			}
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("in blue")}}
		})
		run := w.ask("worker", "steer", "paint it")
		w.until("streaming", w.says("steer", "I begin "))
		if status, out := w.call("POST", "/api/projects/default/agent-runs/"+run+"/messages", map[string]any{"content": "make it blue"}); status != http.StatusCreated {
			t.Fatalf("append: %d %v", status, out)
		}
		close(said)
		if row := w.ended(run); row["status"] != "COMPLETED" {
			t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		reqs := w.provider.Requests()
		if len(reqs) != 2 {
			t.Fatalf("the model got %d requests", len(reqs))
		}
		p := asked(reqs[1])
		if err := p.err(); err != nil || p.said("user", "make it blue") != 1 || p.Messages[len(p.Messages)-1].Role != "user" {
			t.Errorf("the prompt is %v: %v", p, err)
		}
		checkLog(t, "steer", w.all("steer"))
	})
}

// A reload interrupts no run. A streaming run keeps its agent; a waiting run continues with the agent at the time of the answer.
func TestReload_InterruptsNoRun(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		more := make(chan struct{})
		w := declare(t, db, approving, func(p prompt) llmtest.Script {
			if p.said("user", "stream") > 0 && p.turn() == 0 {
				return llmtest.Script{Steps: append([]llmtest.Step{llmtest.Text("I begin "), llmtest.Stall(more)}, note(0, "gone", 1)...)}
			}
			if p.turn() == 0 {
				return llmtest.Script{Steps: note(0, "note", 2)}
			}
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("said by " + p.Model)}}
		})
		waiting := w.ask("worker", "waits", "go")
		questions := w.waits(waiting)
		streaming := w.ask("worker", "streams", "stream")
		w.until("streaming", w.says("streams", "I begin "))

		w.write(t, strings.Replace(w.text, "model: m,", "model: other,", 1))
		if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		w.until("read again", func() bool { return strings.Contains(w.output(), "agents.worker") })
		close(more)
		row := w.ended(streaming)
		if row["status"] != "COMPLETED" || !strings.Contains(fmt.Sprint(row["outputSummary"]), "said by m") {
			t.Errorf("the streaming run is %v with output %v: %v", row["status"], row["outputSummary"], row["error"])
		}
		if status, out := w.answer(waiting, questions, func(map[string]any) string { return `{"approved": true}` }); status != http.StatusAccepted {
			t.Fatalf("resume: %d %v", status, out)
		}
		row = w.ended(waiting)
		if row["status"] != "COMPLETED" || !strings.Contains(fmt.Sprint(row["outputSummary"]), "said by other") || !slices.Equal(w.noted(), []string{"2"}) {
			t.Errorf("the waiting run is %v with output %v and notes %q: %v", row["status"], row["outputSummary"], w.noted(), row["error"])
		}
		for _, thread := range []string{"waits", "streams"} {
			checkLog(t, thread, w.all(thread))
		}
	})
}
