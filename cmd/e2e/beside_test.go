package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/cmd/cmdtest"
	"github.com/batonrun/baton/storage/postgrestest"
)

// pair is two servers of a PostgreSQL database, and a run on the first.
type pair struct {
	t             *testing.T
	first, second *server
	run           string
}

const handed = `{"do":[{"say":"one"},{"tokens":150,"delayMs":10},{"say":"two"}]}`

func newPair(t *testing.T, lease string) *pair {
	t.Helper()
	db := database{url: postgrestest.New(t)}
	p := &pair{t: t, first: start(t, db, "BATON_TIMEOUTS_LEASE="+lease, "BATON_TIMEOUTS_DRAIN=1ms")}
	p.second = start(t, db, "BATON_TIMEOUTS_LEASE="+lease)
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
	v := p.second.watch("handed")
	if row := p.second.ended(p.run); row["status"] != "COMPLETED" {
		p.t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	frames := v.wait(p.t)
	checkLog(p.t, "handed", frames)
	checkOnce(p.t, "handed", frames)
}

// A server takes over the runs of another one that stops.
func TestCluster_TakesOverAfterStop(t *testing.T) {
	t.Parallel()
	p := newPair(t, "1h")
	p.first.stop()
	p.goesOn()
}

// It does not wait for the lease of a server that was killed on the same machine, either.
func TestCluster_TakesOverAfterKill(t *testing.T) {
	t.Parallel()
	p := newPair(t, "1h")
	p.first.kill()
	p.goesOn()
	p.second.kill()
	p.second.up()
	p.second.ended(p.second.run("alone", handed))
}

// A silent server loses its runs when its lease has expired, and writes nothing when it wakes up.
func TestCluster_TakesOverFromSilentServer(t *testing.T) {
	t.Parallel()
	p := newPair(t, "5s")
	_ = p.first.cmd.Process.Signal(syscall.SIGSTOP)
	p.goesOn()
	before := p.second.all("handed")
	_ = p.first.cmd.Process.Signal(syscall.SIGCONT)
	p.first.fenced()
	after := p.second.all("handed")
	sameFrames(t, "handed", before, after)
}

// A gateway executes nothing, and a worker serves no clients: the worker executes the runs that the gateway accepts, also after a restart.
func TestCluster_DividesWorkByRoles(t *testing.T) {
	t.Parallel()
	db := database{url: postgrestest.New(t)}
	gateway := start(t, db, "BATON_ROLE=gateway")
	run := gateway.run("divided", handed)
	worker := start(t, db, "BATON_ROLE=worker", "BATON_TIMEOUTS_DRAIN=1ms")
	gateway.begun("divided")
	if status, _ := worker.call("GET", events("divided"), nil); status != http.StatusNotFound {
		t.Errorf("the worker answers a client with %d", status)
	}
	worker.stop()
	if row := gateway.get(run); row["status"] != "RUNNING" {
		t.Errorf("without a worker the run is %v", row["status"])
	}
	worker.up()
	if row := gateway.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	frames := gateway.all("divided")
	checkLog(t, "divided", frames)
	checkOnce(t, "divided", frames)
}

// Commands find a server of a cluster, whichever lives, and those that need the database alone say which server uses it.
func TestCluster_ServesCommands(t *testing.T) {
	t.Parallel()
	db := database{url: postgrestest.New(t)}
	a, b, worker := start(t, db), start(t, db), start(t, db, "BATON_ROLE=worker")
	run := a.run("told", `{"do":[{"say":"hello"}]}`)
	a.ended(run)
	baton := func(fails bool, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "BATON_DATABASE="+db.url, "BATON_LISTEN="+cmdtest.Address())
		out, err := cmd.CombinedOutput()
		if fails != (err != nil) {
			t.Errorf("baton %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	says := func(fails bool, args []string, wants ...string) {
		t.Helper()
		out := baton(fails, args...)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("baton %v does not say %q:\n%s", args, want, out)
			}
		}
	}
	says(false, []string{"doctor"}, a.addr, b.addr, worker.addr, "role worker")
	says(false, []string{"runs", "--all"}, run)
	says(false, []string{"runs", "show", run}, "hello")
	says(false, []string{"run", "echo", "again"}, "again")
	says(false, []string{"agents"}, "scripted")
	asked := b.run("asked", `{"do":[{"ask":{"message":"Deploy?"}},{"say":"deployed"}]}`)
	b.until("asked", func() bool { return b.get(asked)["status"] == "WAITING" })
	says(false, []string{"answer", asked, "--approve", "--server", a.url("")})
	says(false, []string{"watch", asked, "--server", a.url("")}, "deployed")
	long := b.run("long", `{"do":[{"tool":"sleep","args":{"ms":600000}}]}`)
	says(false, []string{"cancel", long, "--server", a.url("")}, "cancelled "+long)
	says(true, []string{"watch", long, "--server", a.url("")}, "cancelled")
	says(false, []string{"runs", "export", long}, long)
	says(false, []string{"runs", "rerun", run})
	says(false, []string{"migrate"}, "has this version's schema")
	says(false, []string{"retention", "--dry-run"}, "nothing to remove")
	says(true, []string{"retention"}, "a server uses the database", "removes old data itself")
	says(true, []string{"backup", "copy.db"}, "PostgreSQL")
	a.stop()
	says(false, []string{"runs", "--all"}, run)
	b.stop()
	says(true, []string{"runs"}, "needs a server")
	worker.stop()
	says(false, []string{"retention"}, "nothing to remove")
}

// A key is valid at each server once the command has made it, and at none that has not seen it once it is revoked.
func TestCluster_KnowsKeys(t *testing.T) {
	t.Parallel()
	db := database{url: postgrestest.New(t)}
	a, b, c := start(t, db, "BATON_AUTH=api-key"), start(t, db, "BATON_AUTH=api-key"), start(t, db, "BATON_AUTH=api-key")
	key := "Bearer " + a.keys("create", "--user", "alice", "--project", "p1")
	for _, s := range []*server{a, b} {
		if status, _ := s.status("/api/v1/agents", "Authorization", key); status != http.StatusOK {
			t.Errorf("a new key is answered with %d", status)
		}
	}
	id, _, _ := strings.Cut(strings.Split(a.keys("list"), "\n")[1], " ")
	a.keys("revoke", id)
	if status, _ := c.status("/api/v1/agents", "Authorization", key); status != http.StatusUnauthorized {
		t.Errorf("a revoked key is answered with %d", status)
	}
}

// fenced checks that the server ends by itself with exit code 3.
func (s *server) fenced() {
	s.t.Helper()
	<-s.done
	if code := s.cmd.ProcessState.ExitCode(); code != 3 {
		s.t.Errorf("the fenced server ends with exit code %d, want 3", code)
	}
	if !strings.Contains(s.output(), "another server has taken the runs of this one over") {
		s.t.Error("the fenced server does not log the reason")
	}
}

// A server ends when its database is restored to an earlier state, even if it is idle.
func TestServe_EndsWhenDatabaseIsRewound(t *testing.T) {
	t.Parallel()
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
	if _, err := sqlOf(t, db).ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
