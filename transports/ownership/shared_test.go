package ownership_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/ownership"
	"github.com/batonrun/baton/transports/transporttest"
)

// servers are two servers of a cluster.
type servers struct {
	x, y *server
	next func() *server // starts another one
	db   *sqlx.DB
}

func cluster(t *testing.T, grace time.Duration) *servers {
	t.Helper()
	s := lone(t, grace)
	s.y = s.next()
	return s
}

// lone is cluster without the second server.
func lone(t *testing.T, grace time.Duration) *servers {
	t.Helper()
	url := postgrestest.New(t)
	s := &servers{next: func() *server {
		return &server{transporttest.Start(t, transporttest.Config{
			Database: url, Streams: transports.StreamConfig{Grace: grace},
			Runtime: runtime.Config{Limits: runtime.Limits{Grace: time.Second}},
		})}
	}}
	s.x, s.db = s.next(), sqlx.MustConnect("postgres", url)
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

// rows returns the number of rows of run a.
func (s *servers) rows() (n int) {
	s.x.Helper()
	if err := s.db.Get(&n, `SELECT count(*) FROM ties WHERE run_id = 'a'`); err != nil {
		s.x.Fatal(err)
	}
	return n
}

// dropped waits until the servers know that the connection of a run is closed.
func (s *servers) dropped() {
	s.x.Helper()
	s.x.Eventually("the connection is closed", func() bool { return s.rows() > 0 })
}

// join has a client join the thread.
func (s *server) join() {
	s.Helper()
	th, err := s.Runtime.Threads.Get(s.Context(), local, "main")
	if err != nil {
		s.Fatal(err)
	}
	s.Streams.Ownership.Join(local, &th)
}

func TestCluster_CancelsARunWhoseClientLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	if n := s.rows(); n > 0 {
		t.Errorf("a run whose client is there has %d rows", n)
	}
	s.x.drop(tie, started)
	s.y.Await("a", runtime.Cancelled)
}

func TestCluster_CancelsARunOfAServerThatEnded(t *testing.T) {
	t.Parallel()
	for _, start := range []func(*testing.T, time.Duration) *servers{lone, cluster} {
		s := start(t, 3*time.Second)
		started, tie := s.x.owned()
		s.x.drop(tie, started)
		s.dropped()
		s.x.Stop()
		s.next().Await("a", runtime.Cancelled)
	}
}

func TestCluster_EndOfAServerIsNoClientThatLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started := s.x.typist(local)
	s.x.Streams.Ownership.TieRun(peer(true), local, nil, started)
	s.x.Stop()
	s.y.repeats(started, false) // does not own it either
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_JoinElsewhereEndsTheGrace(t *testing.T) {
	t.Parallel()
	s := cluster(t, 10*time.Second)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.dropped()
	s.y.join()
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_JoinElsewhereComesBeforeTheDrop(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.y.join()
	s.x.drop(tie, started)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

// repeats repeats the request of a run on a connection, and drops that unless it is open.
func (s *server) repeats(started runtime.Started, open bool) (tie *ownership.Tie) {
	s.Helper()
	started.Replayed, started.TiedTo = true, ""
	tie = s.Streams.Ownership.TieRun(peer(open), local, nil, started)
	if !open {
		s.drop(tie, started)
	}
	return tie
}

func TestCluster_RepeatTakesOverTheRunOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	repeat := s.y.repeats(started, true)
	s.x.drop(tie, started)
	s.x.OutlastGrace()
	s.y.Await("a", runtime.Running)
	s.y.drop(repeat, started)
	s.y.Await("a", runtime.Cancelled)
}

func TestCluster_RepeatDuringADrop(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"the same server", "another server"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := cluster(t, 10*time.Second) // the repeat comes in it also on a busy machine
			second := s.y
			if at == "the same server" {
				second = s.x
			}
			started, tie := s.x.owned()
			s.x.drop(tie, started) // is on its way
			repeat := second.repeats(started, true)
			second.OutlastGrace()
			second.Await("a", runtime.Running)
			second.Eventually("nothing is left of the first connection", func() bool { return s.rows() == 0 })
			second.drop(repeat, started)
			second.Await("a", runtime.Cancelled)
		})
	}
}

func TestCluster_RepeatAfterADrop(t *testing.T) {
	t.Parallel()
	s := cluster(t, 10*time.Second)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.dropped()
	s.y.repeats(started, true)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_RepeatDoesNotOwnADetachedRun(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	again := started
	again.Replayed = true
	s.y.Streams.Ownership.Detach(local, again)
	s.x.drop(tie, started)
	s.y.repeats(started, false)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_AnsweredRunBelongsToTheConnectionOfTheAnswer(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.x.Keys <- transporttest.Ask
	s.y.Await("a", runtime.Waiting)
	answered := s.y.start(local, runtime.StartRequest{ThreadID: "main", RunID: "b", Resume: s.y.answer()})
	again := s.y.Streams.Ownership.TieRun(peer(true), local, nil, answered)
	s.x.drop(tie, started)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
	s.y.drop(again, answered)
	s.y.Await("a", runtime.Cancelled)
}

func TestCluster_NewMessageReplacesTheRunOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, time.Hour)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.dropped()
	for _, run := range []string{"a", "b"} { // a repeat replaces nothing
		_, err := s.y.Streams.Ownership.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "typist", ThreadID: "main", RunID: run, BodyHash: "other", Messages: []agui.Message{{Role: agui.RoleUser, Content: run}},
		})
		if (err == nil) != (run == "b") {
			t.Errorf("run %s: %v", run, err)
		}
		status := runtime.Running
		if run == "b" {
			status = runtime.Cancelled
		}
		s.y.Await("a", status)
	}
	s.y.Await("b", runtime.Running)
}

// Beside the run of a client that left, a list that changes a message would be no edit.
func TestCluster_EditReplacesTheRunOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, time.Hour)
	asks := func(at *server, run string) runtime.Started {
		messages := []agui.Message{{ID: "m", Role: agui.RoleUser, Content: run}}
		return at.start(local, runtime.StartRequest{Agent: "typist", ThreadID: "main", RunID: run, Edits: true, Messages: messages})
	}
	started := asks(s.x, "a")
	s.x.drop(s.x.Streams.Ownership.TieRun(peer(false), local, nil, started), started)
	s.dropped()
	asks(s.y, "b")
	s.y.Await("b", runtime.Running)
	var shown int
	if err := s.db.Get(&shown, `SELECT count(*) FROM messages WHERE content_hash <> 0 AND state <> 'hidden'`); err != nil || shown != 1 {
		t.Errorf("%d messages are shown, want 1; %v", shown, err)
	}
}

// A client that has seen the question has its time, and answers it at another server.
func TestCluster_AnsweredRunHasNoOwner(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	_, tie := s.x.owned()
	s.x.Keys <- transporttest.Ask
	s.x.Await("a", runtime.Waiting)
	tie.Release()
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Waiting)
	if _, err := s.y.Runtime.Resume(t.Context(), local, "a", s.y.answer()); err != nil {
		t.Fatal(err)
	}
	close(s.x.Keys)
	close(s.y.Keys)
	s.y.Await("a", runtime.Completed)
}
