package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/storagetest"
)

// Scripts with streams, records, idempotent and other tools, retries, and a workflow with parallel nodes. A kill hits them at every
// point.
var scripts = []string{
	`{"do":[{"say":"alpha one two"},{"tokens":120,"delayMs":2},{"say":"omega"}]}`,
	`{"do":[{"say":"before"},{"tool":"sleep","args":{"ms":60}},{"state":{"n":1}},{"tool":"clock"},{"say":"after"}]}`,
	`{"do":[{"progress":0.5,"message":"half"},{"tool":"stubborn","args":{"ms":40}},{"reason":"because of this"},{"say":"done"}]}`,
	`{"do":[{"say":"a b c d e f g","delayMs":8},{"state":{"k":{"x":1}}},{"say":"h i j k","delayMs":8}]}`,
}

// kill -9 at random points: every run ends, no viewer gets a gap, a repeat or a changed event, and completed work is not repeated.
func TestKill_AtRandomPoints(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db := database{url: "sqlite:" + t.TempDir() + "/baton.db"}
		killRounds(t, db, func() {}, func() {})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		c := storagetest.StartPostgres(t)
		killRounds(t, database{url: c.NewDatabase(t)}, func() { must(t, c.Kill()) }, func() { must(t, c.Start()) })
	})
}

func killRounds(t *testing.T, db database, stopDB, startDB func()) {
	s := start(t, db)
	for round := range count(50) {
		killRound(t, s, round, stopDB, startDB)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

func killRound(t *testing.T, s *server, round int, stopDB, startDB func()) {
	var threads, runs []string
	var viewers []*viewer
	add := func(thread, run string) {
		threads, runs = append(threads, thread), append(runs, run)
		viewers = append(viewers, s.watch(thread), s.watch(thread))
	}
	for i, script := range scripts {
		thread := fmt.Sprintf("r%d-%d", round, i)
		add(thread, s.run(thread, script))
	}
	demo := fmt.Sprintf("r%d-demo", round)
	add(demo, s.run(demo, "plan a picnic", "workflowId", "demo"))

	pause(time.Duration(rand.IntN(400)) * time.Millisecond)
	if round%3 == 2 {
		stopDB()
		pause(time.Duration(rand.IntN(100)) * time.Millisecond)
		startDB()
	}
	for range 1 + rand.IntN(2) { // at most twice: three crashes of one run are a crash loop
		s.kill()
		s.up()
		pause(time.Duration(rand.IntN(200)) * time.Millisecond)
	}
	for i, thread := range threads {
		row := s.ended(runs[i])
		if row["status"] != "COMPLETED" {
			t.Errorf("run %s of %s: %v %v", runs[i], thread, row["status"], row["error"])
		}
		seen := viewers[2*i].wait(t)
		sameFrames(t, thread, seen, viewers[2*i+1].wait(t))
		sameFrames(t, thread+" read again", seen, s.all(thread))
		checkLog(t, thread, seen)
		s.checkRun(t, runs[i], seen)
		checkOnce(t, thread, seen)
	}
}

// checkOnce checks that no run repeats a finished message: recorded work is not done again. A message whose model call was cut is taken
// back, and may be said again.
func checkOnce(t *testing.T, thread string, frames []frame) {
	t.Helper()
	var retracted []any
	for i := range frames {
		if e := frames[i].event(); e["name"] == "messages-retracted" {
			value, _ := e["value"].(map[string]any)
			ids, _ := value["messageIds"].([]any)
			retracted = append(retracted, ids...)
		}
	}
	said := map[string]int{}
	for i := range frames {
		e := frames[i].event()
		if frames[i].typ != "TEXT_MESSAGE_END" || slices.Contains(retracted, e["messageId"]) {
			continue
		}
		out, _ := e["workerAgentOutput"].(map[string]any)
		if answer, _ := out["answer"].(string); out["status"] == "success" && answer != "" && !strings.HasPrefix(thread, "demo") {
			said[fmt.Sprint(e["runId"], " ", e["agent"], " ", answer)]++
		}
	}
	for answer, n := range said {
		if n > 1 {
			t.Errorf("thread %s has %q %d times", thread, answer, n)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }
