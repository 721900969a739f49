package e2e

import (
	"database/sql"
	"net/http"
	"strings"
	"syscall"
	"testing"

	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"github.com/batonrun/baton/storage/postgrestest"
)

// pair is the active server and the standby server of a PostgreSQL database, and a viewer.
type pair struct {
	t             *testing.T
	first, second *server
	run           string
}

const handed = `{"do":[{"say":"one"},{"tokens":150,"delayMs":10},{"say":"two"}]}`

// newPair starts two servers with a lease, and a run on the first.
func newPair(t *testing.T, lease string) *pair {
	t.Helper()
	db := database{url: postgrestest.New(t)}
	p := &pair{t: t, first: start(t, db, "BATON_TIMEOUTS_LEASE="+lease, "BATON_TIMEOUTS_DRAIN=1ms")}
	p.second = launch(t, db, "BATON_TIMEOUTS_LEASE="+lease)
	p.second.until("standing by", func() bool {
		status, body, err := p.second.try("GET", "/readyz", nil)
		return err == nil && status == http.StatusServiceUnavailable && body["code"] == "standby" &&
			strings.Contains(body["detail"].(string), p.first.addr)
	})
	p.run = p.first.run("handed", handed)
	p.first.begun("handed")
	return p
}

// begun waits until some events of the thread are stored.
func (s *server) begun(thread string) {
	s.t.Helper()
	s.until("streaming: thread "+thread, func() bool {
		n := 0
		_, _ = s.read(events(thread), 0, func(frame) bool { n++; return n < 20 })
		return n == 20
	})
}

// goesOn checks that the second server takes the run over and finishes it.
func (p *pair) goesOn() {
	p.t.Helper()
	p.second.until("ready", p.second.ready)
	v := p.second.watch("handed")
	if row := p.second.ended(p.run); row["status"] != "COMPLETED" {
		p.t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	frames := v.wait(p.t)
	checkLog(p.t, "handed", frames)
	checkOnce(p.t, "handed", frames)
}

// The standby server takes over immediately when the active one stops.
func TestStandby_TakesOverAfterStop(t *testing.T) {
	p := newPair(t, "1h")
	p.first.stop()
	p.goesOn()
}

// It does not wait for the lease of a server that was killed on the same machine, either.
func TestStandby_TakesOverAfterKill(t *testing.T) {
	p := newPair(t, "1h")
	p.first.kill()
	p.goesOn()
	p.first.kill()
	p.second.kill()
	p.second.up() // alone, it does not stand by
}

// A silent server is replaced when its lease has expired, and writes nothing when it wakes up.
func TestStandby_ReplacesSilentServer(t *testing.T) {
	p := newPair(t, "2s")
	_ = p.first.cmd.Process.Signal(syscall.SIGSTOP)
	p.goesOn()
	before := p.second.all("handed")
	_ = p.first.cmd.Process.Signal(syscall.SIGCONT)
	p.first.fenced()
	after := p.second.all("handed")
	sameFrames(t, "handed", before, after)
}

// fenced checks that the server ends by itself with exit code 3.
func (s *server) fenced() {
	s.t.Helper()
	<-s.done
	if code := s.cmd.ProcessState.ExitCode(); code != 3 {
		s.t.Errorf("the fenced server ends with exit code %d, want 3", code)
	}
	if !strings.Contains(s.output(), "another server has taken the database over") {
		s.t.Error("the fenced server does not log the reason")
	}
}

// --takeover replaces a live server. The replaced server ends its streams properly, and its runs do not count a crash.
func TestTakeover_ReplacesServer(t *testing.T) {
	p := newPair(t, "1h")
	ended := make(chan error, 1)
	sees := make(chan struct{}, 1)
	go func() {
		_, err := p.first.read(events("handed"), 0, func(frame) bool {
			select {
			case sees <- struct{}{}:
			default:
			}
			return true
		})
		ended <- err
	}()
	<-sees
	p.second.kill()
	p.second.args = []string{"--takeover"}
	p.second.launch()
	if err := <-ended; err != nil {
		t.Errorf("a viewer of the fenced server: %v", err)
	}
	p.first.fenced()
	p.goesOn()
}

// A standby server serves stored rows, and refuses writes and live streams.
func TestStandby_ServesRows(t *testing.T) {
	p := newPair(t, "1h")
	for _, do := range []struct{ method, path string }{
		{"POST", "/api/v1/agent/runs"},
		{"POST", "/api/projects/default/agent-runs/" + p.run + "/cancel"},
		{"GET", events("handed")},
		{"GET", "/api/v1/events"},
	} {
		var body any
		if do.method == "POST" {
			body = map[string]any{"agent": "echo", "content": "x"}
		}
		status, out := p.second.call(do.method, do.path, body)
		if status != http.StatusServiceUnavailable || out["code"] != "standby" {
			t.Errorf("%s %s: %d %v, want 503 standby", do.method, do.path, status, out)
		}
	}
	if row := p.second.get(p.run); row["status"] != "RUNNING" {
		t.Errorf("the run is %v", row["status"])
	}
	if status, _ := p.second.call("GET", "/healthz", nil); status != http.StatusOK {
		t.Errorf("healthz: %d", status)
	}
	p.second.stop()
	if !p.second.cmd.ProcessState.Success() {
		t.Error("the standby server does not stop properly")
	}
	p.second = nil
	if row := p.first.ended(p.run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
}

// Repeated takeovers do not count as crashes of runs.
func TestTakeover_IsNoCrash(t *testing.T) {
	p := newPair(t, "1h")
	p.second.kill()
	p.run = p.first.run("endless", `{"do":[{"tokens":1000000,"delayMs":10}]}`)
	p.first.begun("endless")
	for range 5 {
		p.second.args = []string{"--takeover"}
		p.second.launch()
		p.first.fenced()
		p.second.until("ready", p.second.ready)
		p.first, p.second = p.second, p.first
	}
	if row := p.first.get(p.run); row["status"] != "RUNNING" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
}

// A server ends when its database is restored to an earlier state, even if it is idle.
func TestServe_EndsWhenDatabaseIsRewound(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		for _, statement := range []string{
			`UPDATE instances SET commit_no = commit_no - 1 WHERE NOT fenced`, `DELETE FROM instances WHERE NOT fenced`,
		} {
			s := start(t, db)
			s.run("t", `{"do":[{"say":"hello"}]}`)
			s.all("t")
			execute(t, db, statement)
			s.fenced()
		}
	})
}

// execute runs a statement on the database.
func execute(t *testing.T, db database, statement string) {
	t.Helper()
	driver, url := "postgres", db.url
	if file, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, url = "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)"
	}
	conn, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
