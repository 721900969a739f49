package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// kill -9 during runs of a single tool call: an idempotent tool is called again, another one fails as interrupted, and the log has
// neither gap nor repeat.
func TestKill_ToolRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		for round := range count(20) {
			runs := map[string]string{}
			for _, tool := range []string{"sleep", "stubborn"} {
				thread := fmt.Sprint(tool, round)
				status, answer := s.call("POST", "/api/v1/tools/"+tool+"/runs", map[string]any{
					"threadId": thread, "arguments": map[string]any{"ms": 500},
				})
				if status != 202 {
					t.Fatalf("%s: %d %v", tool, status, answer)
				}
				runs[tool] = answer["runId"].(string)
			}
			pause(time.Duration(rand.IntN(300)) * time.Millisecond)
			s.kill()
			s.up()
			for tool, run := range runs {
				thread := fmt.Sprint(tool, round)
				row := s.ended(run)
				failure, _ := row["error"].(map[string]any)
				switch {
				case row["status"] == "COMPLETED":
				case tool == "stubborn" && row["status"] == "FAILED" && failure["code"] == "interrupted":
				default:
					t.Errorf("%s is %v: %v", thread, row["status"], failure)
				}
				frames := s.all(thread)
				checkLog(t, thread, frames)
				s.checkRun(t, run, frames)
			}
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
	})
}
