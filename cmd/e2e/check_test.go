package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// checkLog checks the rules of every log: the ids are 1..n, a span has one RUN_STARTED and one terminal event, and every tool call
// of an ended span has a result, unless the span ended to wait for it.
func checkLog(t *testing.T, thread string, frames []frame) {
	t.Helper()
	if err := logError(frames); err != nil {
		t.Errorf("thread %s: %v", thread, err)
		for _, f := range frames[max(0, len(frames)-30):] {
			t.Logf("%d %s", f.id, f.data)
		}
	}
}

func logError(frames []frame) error {
	open, waiting := false, false
	owed := map[string]bool{}
	for i, f := range frames {
		if f.id != int64(i+1) {
			return fmt.Errorf("frame %d has id %d", i+1, f.id)
		}
		ev := f.event()
		if ev["type"] != f.typ {
			return fmt.Errorf("event %d is %v in a frame of %s", f.id, ev["type"], f.typ)
		}
		if f.typ != "RUN_STARTED" && !open {
			return fmt.Errorf("%s at %d is outside a span", f.typ, f.id)
		}
		switch f.typ {
		case "RUN_STARTED":
			if open {
				return fmt.Errorf("RUN_STARTED at %d is inside a span", f.id)
			}
			open = true
		case "TOOL_CALL_START":
			owed[ev["toolCallId"].(string)] = true
		case "TOOL_CALL_RESULT":
			delete(owed, ev["toolCallId"].(string))
		case "RUN_FINISHED", "RUN_ERROR":
			open = false
			outcome, _ := ev["outcome"].(map[string]any)
			waiting = outcome["type"] == "interrupt"
			if len(owed) > 0 && !waiting {
				return fmt.Errorf("the span that ends at %d leaves calls without a result: %v", f.id, owed)
			}
		}
	}
	if open {
		return fmt.Errorf("the last span has no terminal event")
	}
	return nil
}

// checkRun checks that REST and the log agree on an ended run.
func (s *server) checkRun(t *testing.T, run string, frames []frame) {
	t.Helper()
	row := s.get(run)
	last := ""
	for i := range frames {
		if ev := frames[i].event(); ev["runId"] == run && (frames[i].typ == "RUN_FINISHED" || frames[i].typ == "RUN_ERROR") {
			last = frames[i].typ
			if frames[i].typ == "RUN_ERROR" && ev["code"] == "CANCELLED" {
				last = "CANCELLED"
			}
		}
	}
	want := map[any]string{"COMPLETED": "RUN_FINISHED", "FAILED": "RUN_ERROR", "CANCELLED": "CANCELLED"}[row["status"]]
	if last != want && (row["status"] != "CANCELLED" || last != "") {
		t.Errorf("run %s is %v, its log ends with %q", run, row["status"], last)
	}
	for _, step := range s.items("/api/projects/default/agent-runs/" + run + "/steps?limit=500") {
		if status := step["status"]; status == "RUNNING" || status == "WAITING" {
			t.Errorf("run %s has ended with step %v %v", run, step["stepNumber"], status)
		}
	}
	completed := map[any]int{}
	for _, step := range s.items("/api/projects/default/agent-runs/" + run + "/steps?limit=500") {
		if step["status"] == "COMPLETED" {
			completed[step["nodeId"]]++
		}
	}
	if row["generation"] == float64(1) {
		for node, n := range completed {
			if n > 1 {
				t.Errorf("run %s completed node %v %d times", run, node, n)
			}
		}
	}
}

func (s *server) items(path string) []map[string]any {
	s.t.Helper()
	status, out := s.call("GET", path, nil)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %v", path, status, out)
	}
	b, _ := json.Marshal(out["items"])
	var items []map[string]any
	_ = json.Unmarshal(b, &items)
	return items
}

// sameFrames checks that two viewers saw the same bytes.
func sameFrames(t *testing.T, name string, a, b []frame) {
	t.Helper()
	if len(a) != len(b) {
		t.Errorf("%s: %d frames against %d", name, len(a), len(b))
		return
	}
	for i := range a {
		if a[i].raw != b[i].raw {
			t.Errorf("%s: frame %d differs:\n%s\n%s", name, i+1, a[i].raw, b[i].raw)
			return
		}
	}
}
