package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/cmd/cmdtest"
)

// kill -9 while the janitor seals events and removes expired data, beside running runs and viewers at all cursors. A viewer misses
// only events that a reset reports as removed; kept data stays unchanged, and expired data is removed.
func TestKill_DuringJanitor(t *testing.T) {
	t.Parallel()
	hurried := build(t, "-X github.com/batonrun/baton.tidyEvery=20ms "+cmdtest.NoSuspects)
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db, "BATON_RETENTION_EVENTS=2", "BATON_RETENTION_RUNS=3")
		s.as(hurried)
		a := &archive{
			server: s, q: sqlOf(t, db), ages: map[string]int{}, runs: map[string][]string{}, over: make(chan struct{}),
			seen: map[string]map[int64]frame{},
		}
		end := sync.OnceFunc(func() { close(a.over); a.viewers.Wait() })
		t.Cleanup(end)
		for round := range count(20) {
			a.round(round)
			if t.Failed() {
				t.Fatalf("in round %d", round)
			}
		}
		a.grow()
		a.until("tidy", a.tidy)
		end()
		a.check()
	})
}

// archive is a server with threads that age. Events expire 2 days after the end of their run, runs 3 days after it.
type archive struct {
	*server
	q    *sqlx.DB
	days int
	ages map[string]int      // of each run that has ended, in days
	runs map[string][]string // of each thread

	viewers sync.WaitGroup
	over    chan struct{} // closed at the end of the test

	mu   sync.Mutex // guards the field below
	seen map[string]map[int64]frame
}

// round makes runs on existing and new threads, and kills the server twice. A day passes each time.
func (a *archive) round(n int) {
	var runs []string
	start := func(thread, script string) {
		run := a.run(thread, script)
		runs, a.runs[thread] = append(runs, run), append(a.runs[thread], run)
		if len(a.runs[thread]) == 1 {
			a.view(thread, 0, a.over)
		}
	}
	for i, age := range []string{"kept", "old"} {
		start(fmt.Sprint(age, " ", n), scripts[(n+i)%len(scripts)])
		start(age, `{"do":[{"tokens":200,"delayMs":1},{"tool":"clock"},{"say":"x"}]}`)
		start(age, scripts[(n+i+1)%len(scripts)])
	}
	ended := make(chan struct{})
	for kill := range 2 {
		for thread := range a.runs {
			last := a.has(thread)
			a.view(thread, min(1, last), ended)
			a.view(thread, rand.Int64N(last+1), ended)
		}
		if kill == 0 {
			pause(time.Duration(rand.IntN(500)) * time.Millisecond)
		} else {
			a.tidies()
			pause(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
		a.grow()
	}
	for _, run := range runs {
		if row := a.ended(run); row["status"] != "COMPLETED" {
			a.t.Errorf("run %s: %v %v", run, row["status"], row["error"])
		}
	}
	close(ended)
}

// grow kills the server and restarts it a day later.
func (a *archive) grow() {
	a.t.Helper()
	a.kill()
	a.days++
	day, recent := "86400000", "(unixepoch() - 43200) * 1000"
	if a.q.DriverName() == "postgres" {
		day, recent = "interval '1 day'", "now() - interval '12 hours'"
		for n := range a.days + 1 { // it may be past midnight
			from := time.Now().UTC().AddDate(0, 0, -n-1)
			a.q.MustExec(fmt.Sprintf("CREATE TABLE IF NOT EXISTS events_%s PARTITION OF events FOR VALUES FROM ('%s 00:00Z') TO ('%s 00:00Z')",
				from.Format("20060102"), from.Format(time.DateOnly), from.AddDate(0, 0, 1).Format(time.DateOnly)))
		}
	}
	a.q.MustExec("UPDATE events SET committed_at = committed_at - " + day)
	a.q.MustExec("UPDATE threads SET updated_at = updated_at - " + day)
	var runs []string
	err := a.q.Select(&runs, "UPDATE runs SET created_at = created_at - "+day+", finished_at = finished_at - "+day+
		" WHERE finished_at > "+recent+" OR finished_at IS NOT NULL AND thread_key IN (SELECT key FROM threads WHERE thread_id LIKE 'old%') RETURNING id")
	must(a.t, err)
	for _, run := range runs {
		a.ages[run]++
	}
	a.up()
}

// tidies waits until the janitor has sealed or removed something, or has nothing left to do.
func (a *archive) tidies() {
	left := func() int {
		return countOf(a.t, a.q, "SELECT 1000 * (SELECT count(*) FROM event_segments) + (SELECT count(*) FROM runs)")
	}
	for before, begun := left(), time.Now(); left() == before && time.Since(begun) < 200*time.Millisecond; {
		pause(time.Millisecond)
	}
}

// tidy reports whether the janitor has nothing left to do.
func (a *archive) tidy() bool {
	for run, days := range a.ages {
		if status, _, err := a.try("GET", "/api/projects/default/agent-runs/"+run, nil); err != nil || days >= 3 && status != http.StatusNotFound {
			return false
		}
	}
	ago := "(unixepoch() - 2 * 86400) * 1000"
	if a.q.DriverName() == "postgres" {
		ago = "now() - interval '2 days'"
	}
	return countOf(a.t, a.q, "SELECT count(*) FROM threads WHERE last_seq > sealed_to") == 0 &&
		countOf(a.t, a.q, "SELECT count(*) FROM runs WHERE finished_at < "+ago+" AND key IN (SELECT run_key FROM run_spans)") == 0
}

// view follows a thread from a cursor until end is closed and there are no more events.
func (a *archive) view(thread string, after int64, end chan struct{}) {
	a.viewers.Go(func() {
		var err error
		var to int64
		for {
			last := closedNow(end) || closedNow(a.over)
			status, _ := a.read(events(thread), after, func(f frame) bool { // may be cut: the server is being restarted
				after, err = a.sees(thread, after, &to, &f)
				return err == nil
			})
			if err == nil && !slices.Contains([]int{0, http.StatusOK, http.StatusNoContent, http.StatusServiceUnavailable}, status) {
				err = fmt.Errorf("thread %s after %d: %d", thread, after, status)
			}
			if err != nil {
				a.t.Error(err)
				return
			}
			if last && (status == http.StatusNoContent || a.t.Failed()) {
				return
			}
			pause(5 * time.Millisecond)
		}
	})
}

// sees records a frame that came after an event, and returns the id that the next frame must follow. Only a reset may leave events
// out, and it names them; an event is the same for all viewers. Within a reset, to is the reset's last id, which its last frame has.
func (a *archive) sees(thread string, after int64, to *int64, f *frame) (int64, error) {
	if strings.Contains(f.data, `"name":"log-reset"`) {
		value, _ := f.event()["value"].(map[string]any)
		if value["from"] != float64(after+1) || f.id != 0 || !strings.HasPrefix(thread, "old") {
			return after, fmt.Errorf("thread %s is reset after %d: %s", thread, after, f.raw)
		}
		*to = int64(value["to"].(float64))
		return after, nil
	}
	switch {
	case *to == 0:
	case f.typ == "STATE_SNAPSHOT" && f.id == 0:
		return after, nil
	case f.typ == "MESSAGES_SNAPSHOT" && f.id == *to:
		*to = 0
		return f.id, nil
	}
	if f.id != after+1 {
		return after, fmt.Errorf("thread %s: %d follows %d: %s", thread, f.id, after, f.raw)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if was, ok := a.seen[thread][f.id]; ok && was.raw != f.raw {
		return after, fmt.Errorf("thread %s: event %d has changed:\n%s\n%s", thread, f.id, was.raw, f.raw)
	}
	if a.seen[thread] == nil {
		a.seen[thread] = map[int64]frame{}
	}
	a.seen[thread][f.id] = *f
	return f.id, nil
}

// has returns the number of events of a thread that any viewer has seen.
func (a *archive) has(thread string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.seen[thread]))
}

// check checks the remaining data.
func (a *archive) check() {
	for _, table := range []string{"run_spans", "run_names", "run_inputs", "steps", "messages", "memos"} {
		if n := countOf(a.t, a.q, "SELECT count(*) FROM "+table+" WHERE run_key NOT IN (SELECT key FROM runs)"); n > 0 {
			a.t.Errorf("%d rows of %s belong to no run", n, table)
		}
	}
	if n := countOf(a.t, a.q, "SELECT count(*) FROM runs WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')"); n > 0 {
		a.t.Errorf("%d runs have not ended", n)
	}
	var left [4]int
	for thread, runs := range a.runs {
		frames := a.all(thread)
		if strings.HasPrefix(thread, "kept") {
			checkLog(a.t, thread, frames)
		}
		there, last, to := map[string]bool{}, int64(0), int64(0)
		for i := range frames {
			var err error
			if last, err = a.sees(thread, last, &to, &frames[i]); err != nil {
				a.t.Error(err)
			}
			if frames[i].typ == "RUN_STARTED" {
				there[frames[i].event()["runId"].(string)] = true
			}
		}
		if n := a.has(thread); n > last {
			a.t.Errorf("thread %s ends at %d, but viewers have seen %d events", thread, last, n)
		}
		for _, run := range runs {
			days := min(a.ages[run], 3)
			left[days]++
			status, _ := a.call("GET", "/api/projects/default/agent-runs/"+run, nil)
			if want := days < 3; (status == http.StatusOK) != want || there[run] != (days < 2) {
				a.t.Errorf("run %s of %s ended %d days ago: %d, its events exist: %v", run, thread, days, status, there[run])
			}
			if days < 2 {
				a.checkRun(a.t, run, frames)
			}
		}
	}
	segments := countOf(a.t, a.q, "SELECT count(*) FROM event_segments")
	if segments == 0 || left[1] == 0 || left[3] == 0 {
		a.t.Errorf("there was nothing to check: %d segments, runs by age %v", segments, left)
	}
	a.t.Logf("%d segments, runs by age %v", segments, left)
}
