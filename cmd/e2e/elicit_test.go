package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

const approving = `
agents:
  worker: {$PROVIDER, model: m, tools: [tools.*]}
mcp:
  tools: {$TOOLS, approval: [note]}
`

// answer answers questions of a run with payloads.
func (s *server) answer(run string, questions []map[string]any, payload func(map[string]any) string) (int, map[string]any) {
	s.t.Helper()
	var list []map[string]any
	for _, q := range questions {
		list = append(list, map[string]any{"interruptId": q["id"], "status": "resolved", "payload": json.RawMessage(payload(q))})
	}
	return s.call("POST", "/api/projects/default/agent-runs/"+run+"/resume", map[string]any{"resume": list})
}

// The question of a tool server during a call stays open across restarts, and its answer reaches the server.
func TestElicit_SurvivesRestarts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		w := declare(t, db, approving, func(p prompt) llmtest.Script {
			if p.turn() == 0 {
				return llmtest.Script{Steps: note(0, "book", 1)}
			}
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}}
		})
		run := w.ask("worker", "elicit", "go")
		before := w.waits(run)
		for _, end := range []func(){w.stop, w.kill} {
			end()
			w.up()
		}
		after := w.waits(run)
		if len(after) != 1 || fmt.Sprint(after) != fmt.Sprint(before) || after[0]["message"] != "Which seat?" || after[0]["reason"] != "input_required" ||
			!strings.Contains(fmt.Sprint(after[0]["metadata"]), "tools.book") || after[0]["toolCallId"] == nil {
			t.Fatalf("the questions are %v before the restarts, %v after", before, after)
		}
		if status, out := w.answer(run, after, func(map[string]any) string { return `{"seat": "12"}` }); status != http.StatusBadRequest || out["code"] != "invalid_answer" {
			t.Errorf("a wrong answer: %d %v", status, out)
		}
		if status, out := w.answer(run, after, func(map[string]any) string { return `{"seat": 12}` }); status != http.StatusAccepted {
			t.Fatalf("resume: %d %v", status, out)
		}
		w.kill()
		w.up()
		if row := w.ended(run); row["status"] != "COMPLETED" {
			t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		reqs := w.provider.Requests()
		if p := asked(reqs[len(reqs)-1]); p.err() != nil || p.said("tool", "acceptmap[seat:12]") != 1 {
			t.Errorf("the prompt is %v", p)
		}
		checkLog(t, "elicit", w.all("elicit"))
	})
}
