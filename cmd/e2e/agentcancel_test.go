package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// deaf is the program of an agent that ignores cancellation.
const deaf = `import os, sys, time
sys.path.insert(0, %q)
import baton

def agent(run):
    if run.query == "hello":
        return "here"
    run.text("deaf ")
    while True:
        time.sleep(1)

baton.serve(agent)
`

// A cancel ends a run wherever it hangs. The cancel is answered and the log ends while the call still hangs; no event follows, and
// no connection, process or goroutine of the run remains.
func TestCancel_EndsHangingAgents(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		sdk, err := filepath.Abs("../../plugins/process/sdk/python")
		if err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(t.TempDir(), "deaf.py")
		if err := os.WriteFile(program, fmt.Appendf(nil, deaf, sdk), 0o600); err != nil {
			t.Fatal(err)
		}
		far := stalling(t)
		profiles := cmdtest.Address()
		w := declare(t, db, `
admin_listen: $ADMIN
agents:
  stalls: {$PROVIDER, model: stalls}
  middle: {$PROVIDER, model: middle, tools: [stalls]}
  over:   {$PROVIDER, model: over, tools: [middle]}
  hangs:  {$PROVIDER, model: hangs, tools: [tools.*]}
  asks:   {$PROVIDER, model: asks, tools: [deaf]}
  deaf:   {command: [python3, $DEAF], start_timeout: 10m}
  far:    {agui: {url: $FAR}}
mcp:
  tools: {$TOOLS}
`, hanging, "$DEAF", program, "$FAR", far.url, "$ADMIN", profiles)

		for _, c := range []struct {
			agent  string
			inside func() bool
			left   func() bool // the call of the run has ended
		}{
			{"stalls", w.asked(1), w.hungUp},
			{"hangs", func() bool { return len(w.noted()) == 1 }, w.hungUp},
			{"over", w.asked(5), w.hungUp},
			{"asks", w.says("asks", "deaf "), w.noProgram(program)},
			{"deaf", w.says("deaf", "deaf "), w.noProgram(program)},
			{"far", far.asked, far.hungUp},
		} {
			t.Run(c.agent, func(t *testing.T) {
				run := w.ask(c.agent, c.agent, "go")
				v := w.watch(c.agent)
				w.until("hanging", c.inside)
				began := time.Now()
				if status, out := w.cancel(run); status != http.StatusOK || out["status"] != "CANCELLED" {
					t.Fatalf("cancel: %d %v", status, out)
				}
				answered := time.Since(began)
				frames := v.wait(t)
				ended := time.Since(began)
				w.until("left", c.left)
				t.Logf("answered in %v, ended in %v, released everything in %v", answered, ended, time.Since(began))
				checkLog(t, c.agent, frames)
				w.checkRun(t, run, frames)
				if last := frames[len(frames)-1].event(); last["code"] != "CANCELLED" {
					t.Errorf("the log ends with %v", last)
				}
				sameFrames(t, "when nothing is left", frames, w.all(c.agent))
			})
		}
		for agent, want := range map[string]string{"hangs": "noted 2", "deaf": "here"} { // the program and the server serve other runs
			if row := w.ended(w.ask(agent, "next "+agent, "hello")); row["status"] != "COMPLETED" || !strings.Contains(fmt.Sprint(row["outputSummary"]), want) {
				t.Errorf("the next run of %s is %v, says %v: %v", agent, row["status"], row["outputSummary"], row["error"])
			}
		}
		var left string
		defer func() {
			if left != "" {
				t.Errorf("goroutines remain:\n%s", left)
			}
		}()
		w.until("without a goroutine of a run", func() bool {
			left = w.stacks(profiles, "plugins/llm.", "plugins/remote.", "exec.(*step)", "exec.(*Live)", "process.(*session)")
			return left == ""
		})
	})
}

// hanging returns the model's answer: it stalls, or calls something that hangs.
func hanging(p prompt) llmtest.Script {
	call := func(tool, args string) []llmtest.Step {
		return []llmtest.Step{llmtest.Text("I call " + tool), llmtest.Call(0, "call_1", tool), llmtest.Arguments(0, args)}
	}
	hello := p.said("user", "hello") > 0
	switch {
	case p.Model == "stalls":
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("I begin "), llmtest.Stall(nil)}}
	case hello && p.turn() > 0:
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text(fmt.Sprint(p.Messages[len(p.Messages)-1].Content))}}
	case hello:
		return llmtest.Script{Steps: note(0, "note", 2)}
	case p.Model == "hangs":
		return llmtest.Script{Steps: note(0, "hang", 1)}
	}
	tool := map[string]string{"over": "middle", "middle": "stalls", "asks": "deaf"}[p.Model]
	return llmtest.Script{Steps: call(tool, `{"query":"go"}`)}
}

// asked returns a condition: the provider got n requests.
func (w *world) asked(n int) func() bool {
	return func() bool { return len(w.provider.Requests()) >= n }
}

// hungUp reports whether the connections of all stalled answers are closed.
func (w *world) hungUp() bool {
	for _, r := range w.provider.Requests() {
		if asked(r).Model != "stalls" {
			continue
		}
		if !closedNow(r.Gone) {
			return false
		}
	}
	return true
}

// says returns a condition: a thread's log contains text.
func (w *world) says(thread, text string) func() bool {
	return func() (found bool) {
		_, _ = w.read(events(thread), 0, func(f frame) bool {
			found = f.event()["delta"] == text
			return !found
		})
		return found
	}
}

// noProgram returns a condition: no child process of the server runs the program.
func (w *world) noProgram(path string) func() bool {
	return func() bool {
		names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range names {
			line, _ := os.ReadFile(name) // gone if the process has ended
			if strings.Contains(string(line), path) {
				return false
			}
		}
		return true
	}
}

// stacks returns the stacks of the server's goroutines that are in one of the functions.
func (w *world) stacks(profiles string, functions ...string) string {
	w.t.Helper()
	res, err := client.Get("http://" + profiles + "/debug/pprof/goroutine?debug=2")
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	list := strings.Split(string(text), "\n\n")
	if err != nil || res.StatusCode != http.StatusOK || len(list) < 5 {
		w.t.Fatalf("profiles: %s, %v: %s", res.Status, err, text)
	}
	return strings.Join(slices.DeleteFunc(list, func(stack string) bool {
		return !slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(stack, f) })
	}), "\n\n")
}

// remote is an AG-UI agent that starts a message and stalls.
type remote struct {
	url        string
	came, left chan struct{}
}

func stalling(t *testing.T) *remote {
	r := &remote{came: make(chan struct{}), left: make(chan struct{})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, ev := range []string{
			`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"I begin "}`,
		} {
			fmt.Fprintf(w, "data: %s\n\n", ev)
		}
		_ = http.NewResponseController(w).Flush()
		close(r.came)
		<-req.Context().Done()
		close(r.left)
	}))
	t.Cleanup(srv.Close)
	r.url = srv.URL
	return r
}

func (r *remote) asked() bool  { return closedNow(r.came) }
func (r *remote) hungUp() bool { return closedNow(r.left) }

func (s *server) cancel(run string) (int, map[string]any) {
	s.t.Helper()
	return s.call("POST", "/api/projects/default/agent-runs/"+run+"/cancel", nil)
}
