package ownership_test

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// servers are two servers of a cluster.
type servers struct {
	x, y *server
	db   *sqlx.DB
}

func cluster(t *testing.T, grace time.Duration) *servers {
	t.Helper()
	s, second := alone(t, grace)
	s.y = second()
	return s
}

// alone is cluster before the second server has joined.
func alone(t *testing.T, grace time.Duration) (s *servers, second func() *server) {
	t.Helper()
	url := postgrestest.New(t)
	start := func() *server {
		return &server{transporttest.Start(t, transporttest.Config{
			Database: url, Streams: transports.StreamConfig{Grace: grace},
			Runtime: runtime.Config{Limits: runtime.Limits{Grace: time.Second}},
		})}
	}
	s = &servers{x: start(), db: sqlx.MustConnect("postgres", url)}
	t.Cleanup(func() { _ = s.db.Close() })
	return s, start
}

// dropped waits until the servers know that the connection of a run is closed.
func (s *servers) dropped() {
	s.y.Helper()
	s.y.Eventually("the connection is closed", func() bool {
		var n int
		if err := s.db.Get(&n, "SELECT count(*) FROM ties WHERE grace_ends IS NOT NULL"); err != nil {
			s.y.Fatal(err)
		}
		return n > 0
	})
}

// join has a client join the thread.
func (s *server) join() {
	s.Helper()
	th, err := s.Runtime.Thread(s.Context(), local, "main")
	if err != nil {
		s.Fatal(err)
	}
	s.Streams.Join(local, &th)
}

func TestCluster_CancelsARunWhoseClientLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.y.Await("a", runtime.Cancelled)
	var left int
	s.y.Eventually("the tie is removed", func() bool {
		return s.db.Get(&left, "SELECT count(*) FROM ties") == nil && left == 0
	})
}

// The connection was closed before its server ended.
func TestCluster_CancelsARunOfAServerThatEnded(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.x.Stop()
	s.y.Await("a", runtime.Cancelled)
}

func TestCluster_EndOfAServerIsNoClientThatLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	s.x.Streams.TieRun(peer(true), local, nil, s.x.typist(local))
	s.x.Stop()
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_JoinElsewhereEndsTheGrace(t *testing.T) {
	t.Parallel()
	s := cluster(t, 3*time.Second)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.dropped()
	s.y.join()
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

// The client left a server that was alone, and comes back to another one that has just joined.
func TestCluster_GraceGoesOnBesideAServerThatJoins(t *testing.T) {
	t.Parallel()
	s, second := alone(t, time.Minute)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.y = second()
	count := func() (n int) {
		if err := s.db.Get(&n, "SELECT count(*) FROM ties"); err != nil {
			t.Error(err)
		}
		return n
	}
	if count() != 1 {
		t.Error("the server that joins does not know the run's owner")
	}
	s.y.join()
	s.y.Eventually("the tie is removed", func() bool { return count() == 0 })
}

// A server notices late that the client has gone to another one.
func TestCluster_JoinElsewhereComesBeforeTheDrop(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.y.join()
	s.x.drop(tie, started)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_RepeatTakesOverTheRunOfAnotherServer(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	again := started
	again.Replayed = true
	repeat := s.y.Streams.TieRun(peer(true), local, nil, again)
	s.x.drop(tie, started)
	s.x.OutlastGrace()
	s.y.Await("a", runtime.Running)
	s.y.drop(repeat, again)
	s.y.Await("a", runtime.Cancelled)
}

func TestCluster_RepeatDoesNotOwnADetachedRun(t *testing.T) {
	t.Parallel()
	s := cluster(t, 50*time.Millisecond)
	started, tie := s.x.owned()
	s.y.Streams.Detach(local, started)
	s.x.drop(tie, started)
	again := started
	again.Replayed = true
	s.y.drop(s.y.Streams.TieRun(peer(false), local, nil, again), again)
	s.y.OutlastGrace()
	s.y.Await("a", runtime.Running)
}

func TestCluster_NewMessageReplacesTheRunOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	s := cluster(t, time.Hour)
	started, tie := s.x.owned()
	s.x.drop(tie, started)
	s.dropped()
	for _, run := range []string{"a", "b"} { // a repeat replaces nothing
		_, err := s.y.Streams.StartRun(t.Context(), local, runtime.StartRequest{
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
