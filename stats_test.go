package baton_test

import (
	"encoding/json"
	"testing"
)

// The statistics of a project count its runs by their ends, failures and agents.
func TestStatistics_CountRuns(t *testing.T) {
	t.Parallel()
	at(t, "", func(s site) {
		start := func(body, status string) string {
			t.Helper()
			run := s.must("p1/ann/user", "POST", "/api/v1/agent/runs", body)["runId"].(string)
			s.reach("p1/ann/user", run, status)
			return run
		}
		done := start(`{"agent":"echo","threadId":"main","content":"x"}`, "COMPLETED")
		start(`{"agent":"scripted","threadId":"fails","content":"{\"do\":[{\"fail\":\"boom\",\"code\":\"x\"}]}"}`, "FAILED")
		start(`{"agent":"scripted","threadId":"asks","content":"{\"do\":[{\"ask\":{\"message\":\"?\"}}]}"}`, "WAITING")
		s.must("p1/ann/user", "POST", "/api/projects/p1/agent-runs/"+done+"/messages", `{"content":"again"}`)
		s.reach("p1/ann/user", done, "COMPLETED")

		var got struct {
			Totals   struct{ Started, Completed, Failed, Cancelled int }
			Failures []struct {
				Code  string
				Count int
			}
			Agents []struct {
				Agent        string
				Runs, Failed int
			}
			Now struct{ Running, Queued, Waiting int }
		}
		answer := s.request("p1/vic/viewer", "GET", "/api/projects/p1/stats?window=hour", "")
		if err := json.Unmarshal([]byte(answer.body), &got); err != nil || answer.status != 200 {
			t.Fatalf("%d %s: %v", answer.status, answer.body, err)
		}
		if n := got.Totals; n.Started != 4 || n.Completed != 2 || n.Failed != 1 || n.Cancelled != 0 || got.Now.Waiting != 1 ||
			len(got.Failures) != 1 || got.Failures[0].Code != "x" || len(got.Agents) != 2 || got.Agents[0].Agent != "echo" || got.Agents[0].Runs != 2 {
			t.Errorf("the statistics are %+v", got)
		}
		if got := s.must("p2/eve/admin", "GET", "/api/projects/p2/stats", "")["totals"].(map[string]any)["started"]; got != 0.0 {
			t.Errorf("another project sees %v runs", got)
		}
	})
}
