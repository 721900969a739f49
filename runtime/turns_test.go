package runtime_test

import (
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
)

// single is an agent of which a server executes one run at a time.
type single struct{ agent }

func (s single) Info() plugins.Info { return plugins.Info{Name: s.name, Concurrency: 1} }

// A run whose agent has no free slot at one server begins at another. The first one does not wait for it any more, and begins the run behind it.
func TestServers_BeginTheRunBehindOneThatBeganElsewhere(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	hangs, goesOn := halves("limited")
	atX := labelled{answers("next", "x", nil), "x"}
	x, _ := member(t, url, runtime.Config{Identity: runtime.Identity{Labels: []string{"x"}}}, single{agent{"limited", hangs.Run}}, atX)
	y, _ := member(t, url, runtime.Config{}, single{agent{"limited", goesOn.Run}}, atX)
	x.start("long", "limited", "go")
	<-hangs.began
	y.wait(x.start("main", "limited", "go").RunID, runtime.Completed)
	y.wait(y.start("main", "next", "next").RunID, runtime.Completed)
}

// A limit over all servers is reached by a run that no server executes. Once that has ended, the user's next one begins.
func TestServers_SeeTheEndOfARunThatNobodyExecutes(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	own, _ := halves("own")
	x, _ := member(t, url, runtime.Config{}, own)
	left := x.start("left", "own", "go")
	<-own.began
	x.down()
	y, _ := member(t, url, runtime.Config{Limits: runtime.Limits{RunsPerUser: 1}}, hello)
	next := y.start("main", "hello", "go")
	y.until("it waits for the limit", func() bool {
		run := y.run(next)
		w := y.Logs.WaitOf(t.Context(), &run)
		return w != nil && w.Reason == "user_limit"
	})
	if _, err := y.Cancel(t.Context(), local, left.RunID); err != nil {
		t.Error(err)
	}
	y.wait(next.RunID, runtime.Completed)
}
