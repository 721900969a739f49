package e2e

import (
	"fmt"
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
