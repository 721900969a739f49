package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/batonrun/baton/storage/postgrestest"
)

// Two servers of a cluster execute runs at the same time. When one is killed, stopped or stands still, its runs go on at the
// other server from their records, and each log has its ids once.
func TestCluster_SurvivesItsServers(t *testing.T) {
	for name, ends := range map[string]func(s *server){
		"kill -9": (*server).kill,
		"stop":    (*server).stop,
		"standstill": func(s *server) {
			_ = s.cmd.Process.Signal(syscall.SIGSTOP)
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := database{url: postgrestest.New(t)}
			env := []string{"BATON_CLUSTER=true", "BATON_TIMEOUTS_LEASE=3s", "BATON_TIMEOUTS_DRAIN=1ms"}
			a, b := start(t, db, env...), start(t, db, env...)
			runs := make(map[string]string)
			for i, s := range []*server{a, b} {
				for j := range 4 {
					thread := fmt.Sprint("t", i, j)
					runs[thread] = s.run(thread, handed)
					s.begun(thread)
				}
			}
			ends(a)
			for thread, run := range runs {
				if row := b.ended(run); row["status"] != "COMPLETED" {
					t.Errorf("the run of %s is %v: %v", thread, row["status"], row["error"])
				}
			}
			logs := make(map[string][]frame)
			for thread := range runs {
				logs[thread] = b.all(thread)
				checkLog(t, thread, logs[thread])
				checkOnce(t, thread, logs[thread])
			}
			if name != "standstill" {
				a.up() // beside the other one
				a.run("again", handed)
				a.all("again")
				return
			}
			_ = a.cmd.Process.Signal(syscall.SIGCONT)
			a.fenced()
			for thread := range runs {
				sameFrames(t, thread, logs[thread], b.all(thread))
			}
		})
	}
}

// A later migration, after which this program can go on, is done under a living server with a run, and this program starts again
// after it: an upgrade that is taken back. It does not start once a migration has excluded it.
func TestCluster_GoesOnAfterALaterMigration(t *testing.T) {
	db := database{url: postgrestest.New(t)}
	a := start(t, db, "BATON_CLUSTER=true")
	run := a.run("before", handed)
	a.begun("before")
	execute(t, db, `
BEGIN; SET LOCAL lock_timeout = '10s';
ALTER TABLE runs ADD COLUMN later bigint NOT NULL DEFAULT 0; ALTER TABLE threads ADD COLUMN later text; ALTER TABLE events ADD COLUMN later text;
ALTER TABLE messages ADD COLUMN later text; ALTER TABLE instances ADD COLUMN later text; CREATE INDEX ON runs (later);
INSERT INTO schema_versions (version_id, is_applied) VALUES (1000, TRUE);
COMMIT`)
	if row := a.ended(run); row["status"] != "COMPLETED" {
		t.Errorf("the run is %v: %v", row["status"], row["error"])
	}
	checkLog(t, "before", a.all("before"))
	b := start(t, db, "BATON_CLUSTER=true")
	for _, s := range []*server{a, b} {
		if row := b.ended(s.run("after", handed)); row["status"] != "COMPLETED" {
			t.Errorf("a run after it is %v: %v", row["status"], row["error"])
		}
	}
	b.stop()
	execute(t, db, "UPDATE schema_oldest SET oldest = 1000")
	b.launch()
	<-b.done
	if out := b.output(); !strings.Contains(out, "newer Baton") {
		t.Errorf("it has not said why it does not start:\n%s", tail(out, 2000))
	}
}
