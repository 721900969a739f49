package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// jobs is a tool server over HTTP whose only tool, which is not idempotent, begins a task that ends once it may.
type jobs struct {
	begun, polled, cancelled chan string
	done                     atomic.Bool // tasks end
}

func (j *jobs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ TaskID string }
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	said := `"error":{"code":-32601,"message":"no"}`
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		said = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"jobs","version":"1"}}`
	case m.Method == "tools/list":
		said = `"result":{"tools":[{"name":"job","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
	case m.Method == "tools/call":
		j.begun <- ""
		said = `"result":{"task":{"taskId":"it","status":"working","pollInterval":1}}`
	case m.Method == "tasks/get":
		status := "working"
		if j.done.Load() {
			status = "completed"
		}
		select {
		case j.polled <- m.Params.TaskID:
		default:
		}
		said = fmt.Sprintf(`"result":{"taskId":"it","status":%q}`, status)
	case m.Method == "tasks/result":
		said = `"result":{"content":[{"type":"text","text":"the job is done"}]}`
	case m.Method == "tasks/cancel":
		j.cancelled <- m.Params.TaskID
		said = `"result":{}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, said)
}

// kill -9 while a run polls a task: it polls on, the tool is not called again, and a cancel of the run cancels the task.
func TestKill_TaskIsPolledOn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		j := &jobs{begun: make(chan string, 9), polled: make(chan string), cancelled: make(chan string, 9)}
		srv := httptest.NewServer(j)
		t.Cleanup(srv.Close)
		w := declare(t, db, `
agents:
  worker: {$PROVIDER, model: m, tools: [jobs.*]}
mcp:
  jobs: {url: $JOBS}
`, func(p prompt) llmtest.Script {
			if p.turn() == 0 {
				return llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "call_1", "jobs_job"), llmtest.Arguments(0, "{}")}}
			}
			return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("done")}}
		}, "$JOBS", srv.URL)
		run := w.ask("worker", "task", "go")
		for _, end := range []func(){w.kill, w.stop, w.kill} {
			<-j.polled
			end()
			w.up()
		}
		<-j.polled
		j.done.Store(true)
		if row := w.ended(run); row["status"] != "COMPLETED" {
			t.Fatalf("the run is %v: %v", row["status"], row["error"])
		}
		reqs := w.provider.Requests()
		if p := asked(reqs[len(reqs)-1]); p.err() != nil || p.said("tool", "the job is done") != 1 || len(j.begun) != 1 || len(j.cancelled) != 0 {
			t.Errorf("%d jobs, %d cancelled; the prompt is %v", len(j.begun), len(j.cancelled), p)
		}
		checkLog(t, "task", w.all("task"))

		j.done.Store(false)
		run = w.ask("worker", "cancel", "go")
		<-j.polled
		if status, out := w.call("POST", "/api/projects/default/agent-runs/"+run+"/cancel", nil); status != http.StatusOK {
			t.Errorf("cancel: %d %v", status, out)
		}
		if row := w.ended(run); row["status"] != "CANCELLED" || <-j.cancelled != "it" {
			t.Errorf("the run is %v", row["status"])
		}
	})
}
