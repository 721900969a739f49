package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// kill -9 during retention leaves each run either complete, or removed, or in the list of deletions to complete. The next retention
// removes the rest.
func TestKill_DuringRetention(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		const threads, per = 6, 8
		var runs []string
		for i := range threads * per {
			runs = append(runs, s.run(fmt.Sprint("t", i%threads), `{"do":[{"say":"a b c d e f g h"},{"tool":"clock"},{"say":"i j k"}]}`))
		}
		for _, run := range runs {
			s.ended(run)
		}
		young := s.run("young", `{"do":[{"say":"stays"}]}`)
		s.ended(young)
		last := make([]int64, threads)
		for i := range last {
			frames := s.all(fmt.Sprint("t", i))
			last[i] = frames[len(frames)-1].id
		}
		s.stop()

		q := sqlOf(t, db)
		if strings.HasPrefix(db.url, "sqlite:") {
			q.MustExec("UPDATE runs SET created_at = created_at - 777600000, finished_at = finished_at - 777600000 WHERE id <> $1", young)
		} else {
			q.MustExec("UPDATE runs SET created_at = created_at - interval '9 days', finished_at = finished_at - interval '9 days' WHERE id <> $1", young)
		}
		left := threads*per + 1
		for round := 0; left > 1; round++ {
			if round == 200 {
				t.Fatalf("%d runs remain", left)
			}
			cmd := exec.CommandContext(t.Context(), binary, "retention", "--database", db.url)
			cmd.Env = append(os.Environ(), "BATON_RETENTION_RUNS=7")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { _ = cmd.Wait(); close(ended) }() // its error does not matter
			before := left
			for left == before && !closedNow(ended) {
				left = countOf(t, q, "SELECT count(*) FROM runs")
			}
			if round < count(8) {
				pause(time.Duration(rand.IntN(30)) * time.Millisecond)
				_ = cmd.Process.Kill()
			}
			<-ended
			for _, table := range []string{"run_spans", "run_names", "run_inputs", "steps", "messages", "events"} {
				if n := countOf(t, q, "SELECT count(*) FROM "+table+" WHERE run_key NOT IN (SELECT key FROM runs)"); n > 0 {
					t.Fatalf("round %d: %d rows of %s belong to no run", round, n, table)
				}
			}
			left = countOf(t, q, "SELECT count(*) FROM runs")
			if n := countOf(t, q, incomplete); n > 0 {
				t.Fatalf("round %d: %d of %d runs are incomplete", round, n, left)
			}
		}
		if n := countOf(t, q, "SELECT count(*) FROM deletions"); n > 0 {
			t.Errorf("%d deletions are left", n)
		}
		t.Logf("%d runs were removed", threads*per)

		s.up()
		s.ended(young)
		for i := range last {
			thread := fmt.Sprint("t", i)
			s.ended(s.run(thread, `{"do":[{"say":"anew"}]}`))
			frames := s.all(thread)
			if first := &frames[0]; frames[2].id != last[i] || !strings.Contains(first.data, "log-reset") {
				t.Errorf("%s begins with %s and continues after %d, want a reset to %d", thread, first.data, frames[2].id, last[i])
			}
		}
	})
}

const incomplete = `
SELECT count(*) FROM runs WHERE key NOT IN (SELECT run_key FROM deletions)
	AND (key NOT IN (SELECT run_key FROM run_spans) OR key NOT IN (SELECT run_key FROM events) OR key NOT IN (SELECT run_key FROM steps))`
