package baton_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// Statistics are the same before and after they are rolled up, after a restart, and after the runs are deleted.
func TestStatistics_Stay(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func() string{
		"SQLite":     func() string { return "sqlite:" + sqlitetest.New(t) },
		"PostgreSQL": func() string { return postgrestest.New(t) },
	} {
		t.Run(name, func(t *testing.T) {
			url := database()
			serve := func() (*baton.Server, site) {
				s := open(t, baton.Config{
					Listen: "127.0.0.1:0", Database: url, Plugins: builtin.Plugins(), Accounts: baton.AuthenticatorFunc(byHeader),
					Tuning: baton.Tuning{Attachments: baton.Attachments{Directory: t.TempDir()}},
				})
				return s, site{T: t, url: s.URL()}
			}
			server, s := serve()
			start := func(body, status string) string {
				t.Helper()
				run := s.must("p1/ann/user", "POST", "/api/v1/agent/runs", body)["runId"].(string)
				s.reach("p1/ann/user", run, status)
				return run
			}
			done := start(`{"agent":"echo","threadId":"main","content":"x"}`, "COMPLETED")
			failed := start(`{"agent":"scripted","threadId":"fails","content":"{\"do\":[{\"fail\":\"boom\",\"code\":\"x\"}]}"}`, "FAILED")
			start(`{"agent":"scripted","threadId":"asks","content":"{\"do\":[{\"ask\":{\"message\":\"?\"}}]}"}`, "WAITING")
			s.must("p1/ann/user", "POST", "/api/projects/p1/agent-runs/"+done+"/messages", `{"content":"again"}`)
			s.reach("p1/ann/user", done, "COMPLETED")

			type sums struct {
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
			read := func(window string) (got sums) {
				t.Helper()
				answer := s.request("p1/vic/viewer", "GET", "/api/projects/p1/stats?window="+window, "")
				if err := json.Unmarshal([]byte(answer.body), &got); err != nil || answer.status != 200 {
					t.Fatalf("%d %s: %v", answer.status, answer.body, err)
				}
				return got
			}
			want := read("hour")
			if n := want.Totals; n.Started != 4 || n.Completed != 2 || n.Failed != 1 || n.Cancelled != 0 || want.Now.Waiting != 1 ||
				len(want.Failures) != 1 || want.Failures[0].Code != "x" || len(want.Agents) != 2 || want.Agents[0].Agent != "echo" || want.Agents[0].Runs != 2 {
				t.Fatalf("the statistics are %+v", want)
			}
			same := func(when string) {
				t.Helper()
				for _, window := range []string{"hour", "day", "week"} {
					if diff := cmp.Diff(want, read(window)); diff != "" {
						t.Errorf("%s, by %s (-want +got):\n%s", when, window, diff)
					}
				}
			}
			same("before it is counted")
			if err := server.Runtime().RollUp(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
			same("counted")
			s.must("p1/ann/user", "DELETE", "/api/projects/p1/agent-runs/"+failed, "")
			s.must("p1/ann/user", "DELETE", "/api/v1/threads/main", "")
			same("when runs are deleted")
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
			_, s = serve()
			same("after a restart")
			if got := s.must("p2/eve/admin", "GET", "/api/projects/p2/stats", "")["totals"].(map[string]any)["started"]; got != 0.0 {
				t.Errorf("another project sees %v runs", got)
			}
		})
	}
}
