package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite" // for a second writer

	"github.com/batonrun/baton/storage/storagetest"
)

func (s *server) rss() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	var size, resident int
	_, _ = fmt.Sscan(string(b), &size, &resident)
	return resident * os.Getpagesize()
}

func (s *server) turnsRed() {
	s.t.Helper()
	s.until("red", func() bool { return !s.ready() })
}

func (s *server) turnsGreen() {
	s.t.Helper()
	s.until("green", s.ready)
}

// While PostgreSQL is down or does not answer, runs wait and /readyz reports it. Nothing is lost.
func TestPostgres_Unavailable(t *testing.T) {
	t.Parallel()
	c := storagetest.StartPostgres(t)
	s := start(t, database{url: c.NewDatabase(t)})
	away := time.Duration(count(10)) * time.Second
	run := s.run("away", `{"do":[{"tokens":400,"delayMs":3},{"say":"back again"}]}`)
	v := s.watch("away")
	s.writes("away")
	must(t, c.Kill())
	s.turnsRed()
	pause(away)
	must(t, c.Start())
	s.turnsGreen()
	if row := s.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	frames := v.wait(t)
	checkLog(t, "away", frames)
	sameFrames(t, "read again", frames, s.all("away"))
}

// While another process holds SQLite's write lock, runs wait.
func TestSQLite_Locked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "baton.db")
	s := start(t, database{url: "sqlite:" + path})
	run := s.run("slow", `{"do":[{"tokens":300,"delayMs":3}]}`)
	v := s.watch("slow")
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=exclusive&_pragma=busy_timeout(10000)")
	must(t, err)
	defer func() { _ = db.Close() }()
	for range 3 {
		tx, err := db.BeginTx(context.Background(), nil)
		must(t, err)
		pause(300 * time.Millisecond)
		must(t, tx.Rollback())
	}
	if row := s.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "slow", v.wait(t))
}

// While the disk is full, runs wait and /readyz reports it. Nothing stored is lost.
func TestSQLite_DiskFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	s := start(t, database{url: "sqlite:" + filepath.Join(string(disk), "baton.db")})
	done := s.run("before", `{"do":[{"tokens":50}]}`)
	s.ended(done)
	before := s.all("before")
	run := s.run("full", `{"do":[{"tokens":200,"size":4000,"delayMs":5},{"say":"made it"}]}`)
	v := s.watch("full")
	disk.fill(t)
	s.turnsRed()
	s.saysFull()
	sameFrames(t, "what was stored before", before, s.all("before"))
	disk.empty(t)
	s.turnsGreen()
	if row := s.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "full", v.wait(t))
}

// A server that is killed on a full disk starts again, serves stored data, and continues when there is space.
func TestServe_StartsOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	s := start(t, database{url: "sqlite:" + filepath.Join(string(disk), "baton.db")})
	s.ended(s.run("before", `{"do":[{"tokens":50}]}`))
	before := s.all("before")
	run := s.run("full", `{"do":[{"tokens":200,"size":4000,"delayMs":5},{"say":"made it"}]}`)
	disk.fill(t)
	s.turnsRed()
	s.kill()
	disk.fill(t)
	for range 2 {
		s.launch()
		s.whileUp("serving", func() bool { // a slow start answers probes alone
			status, _, err := s.try("GET", "/api/v1/agents", nil)
			return err == nil && status == http.StatusOK
		})
		s.turnsRed() // the run soon fills the free pages in the file
		s.saysFull()
		sameFrames(t, "what was stored before", before, s.all("before"))
		if row := s.get(run); row["status"] != "RUNNING" {
			t.Errorf("on the full disk the run is %v", row["status"])
		}
		status, out := s.call("POST", "/api/v1/agent/runs", map[string]any{"agent": "echo", "threadId": "new", "content": "hello"})
		if status != http.StatusServiceUnavailable {
			t.Errorf("a new run: %d %v", status, out)
		}
		s.kill()
		disk.fill(t)
	}
	s.launch()
	s.until("red", func() bool {
		status, _, err := s.try("GET", "/readyz", nil)
		return err == nil && status != http.StatusOK
	})
	disk.empty(t)
	s.turnsGreen()
	if row := s.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "full", s.all("full"))
	s.ended(s.run("new", `{"do":[{"say":"hello"}]}`))
}

func (s *server) saysFull() {
	s.t.Helper()
	status, out := s.call("GET", "/readyz", nil)
	if status != http.StatusServiceUnavailable || out["code"] != "disk_full" {
		s.t.Errorf("readiness: %d %v", status, out)
	}
}

// disk is the directory of a file system of 16 MB.
type disk string

func smallDisk(t *testing.T) disk {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("mount: %v %s", err, out)
		}
		t.Skipf("a small file system cannot be mounted here (it takes root): %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return disk(dir)
}

func (d disk) fill(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(string(d), "filler"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	_, _ = io.Copy(f, io.LimitReader(zeros{}, 32<<20)) // until the disk is full
	_ = f.Close()
}

func (d disk) empty(t *testing.T) {
	t.Helper()
	must(t, os.Remove(filepath.Join(string(d), "filler")))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A graceful stop releases runs that do not end in time, and the next start resumes them.
func TestStop_ReleasesRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, db database) {
		s := start(t, db)
		s.env = append(s.env, "BATON_TIMEOUTS_DRAIN=50ms")
		s.kill()
		s.up()
		run := s.run("long", `{"do":[{"say":"first"},{"tokens":100,"delayMs":20},{"say":"last"}]}`)
		v := s.watch("long")
		s.writes("long")
		s.stop()
		s.up()
		row := s.ended(run)
		if row["status"] != "COMPLETED" {
			t.Errorf("the run is %v: %v", row["status"], row["error"])
		}
		frames := v.wait(t)
		checkLog(t, "long", frames)
		checkOnce(t, "long", frames)
	})
}
