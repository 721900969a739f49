package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/agui"
)

// kill -9 between the verdicts on two calls: the refused call is never made, and a guard that has decided is not asked again. The
// model's next prompt has a result for each call, and the guards' tokens count to the run.
func TestKill_GuardsDecideOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		var mu sync.Mutex
		decided := map[string]int{} // guards, by what they were asked about
		counted := &agui.TokenUsage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15}
		say := func(text string) llmtest.Script {
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text(text)}, Usage: counted}
		}
		w := declare(t, db, `
agents:
  worker: {$PROVIDER, model: m, tools: [tools.*], guard: {input: {agent: moderator}, tool: {agent: moderator}, output: {agent: moderator}}}
  moderator: {$PROVIDER, model: mod, output: {schema: {type: object, properties: {verdict: {type: string}, reason: {type: string}}, required: [verdict]}}}
mcp:
  tools: {$TOOLS}
`, func(p prompt) llmtest.Script {
			if p.Model == "m" && p.turn() == 0 {
				return llmtest.Script{Steps: slices.Concat(note(0, "note", 1), note(1, "note", 2)), Usage: counted}
			} else if p.Model == "m" {
				return say("done")
			}
			about := ""
			for _, on := range []string{`"n":1`, `"n":2`, `"on":"input"`, `"on":"output"`} {
				if p.said("user", on) > 0 {
					about = on
				}
			}
			mu.Lock()
			defer mu.Unlock()
			switch decided[about]++; {
			case about == `"n":1`:
				return say(`{"verdict": "refuse", "reason": "not one"}`)
			case about == `"n":2` && decided[about] == 1:
				return llmtest.Script{Steps: []llmtest.Step{llmtest.Text(`{"verdict"`), llmtest.Stall(nil)}}
			}
			return say(`{"verdict": "allow"}`)
		})
		run := w.ask("worker", "guarded", "go")
		w.until("the second call is being decided", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return decided[`"n":2`] == 1
		})
		w.kill()
		w.up()
		row := w.ended(run)
		if row["status"] != "COMPLETED" || row["outputSummary"] != "done" {
			t.Fatalf("the run is %v with %v: %v", row["status"], row["outputSummary"], row["error"])
		}
		if got := w.noted(); !slices.Equal(got, []string{"2"}) {
			t.Errorf("the notes are %q", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if got, want := fmt.Sprint(decided), `map["n":1:1 "n":2:2 "on":"input":1 "on":"output":1]`; got != want {
			t.Errorf("the guards were asked %s, want %s", got, want)
		}
		var last prompt
		for _, r := range w.provider.Requests() {
			if p := asked(r); p.Model == "m" {
				last = p
			}
		}
		if err := last.err(); err != nil || last.said("tool", "guard_refused") != 1 || last.said("tool", "not one") != 1 || last.said("tool", "noted 2") != 1 {
			t.Errorf("the last prompt is %v: %v", last, err)
		}
		if usage := fmt.Sprint(row["usage"]); strings.Count(usage, "model:mod ") != 1 {
			t.Errorf("the usage is %s", usage)
		}
		frames := w.all("guarded")
		checkLog(t, "guarded", frames)
		var verdicts []string
		for _, f := range frames {
			if ev := f.event(); ev["name"] == "guard" {
				value := ev["value"].(map[string]any)
				verdicts = append(verdicts, fmt.Sprint(value["name"], " ", value["on"], " ", value["verdict"]))
			}
			if strings.Contains(f.data, "verdict") && f.typ == "TEXT_MESSAGE_CONTENT" {
				t.Errorf("the guard's answer is shown: %s", f.data)
			}
		}
		if got := strings.Join(verdicts, ", "); got != "moderator input allow, moderator tool refuse, moderator tool allow, moderator output allow" {
			t.Errorf("the log has the verdicts %s", got)
		}
		status, page := w.call(http.MethodGet, fmt.Sprintf("/api/v1/conversations/%v/agent-runs/%s/events", row["conversationId"], run), nil)
		if text := fmt.Sprint(page); status != http.StatusOK || strings.Contains(text, "verdict") || !strings.Contains(text, "done") {
			t.Errorf("the public log: %d %s", status, text)
		}
	})
}
