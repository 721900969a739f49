package ownership_test

import (
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/ownership"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

type server struct{ *transporttest.Server }

// serve starts a server with a grace of 50 ms.
func serve(t *testing.T) *server {
	t.Helper()
	return &server{transporttest.Start(t, transporttest.Config{
		Runtime: runtime.Config{Limits: runtime.Limits{Grace: time.Second}},
		Streams: transports.StreamConfig{Grace: 50 * time.Millisecond},
	})}
}

// peer is a connection: true while it is open.
type peer bool

func (p peer) Gone() bool { return !bool(p) }

// owned starts run a of the typist, and ties it to a closed connection.
func (s *server) owned() (runtime.Started, *ownership.Tie) {
	s.Helper()
	started := s.typist(local)
	return started, s.Streams.Ownership.TieRun(peer(false), local, nil, started)
}

func (s *server) typist(who runtime.Caller) runtime.Started {
	s.Helper()
	return s.start(who, runtime.StartRequest{Agent: "typist", ThreadID: "main", RunID: "a"})
}

// start starts a run that belongs to its connection.
func (s *server) start(who runtime.Caller, req runtime.StartRequest) runtime.Started {
	s.Helper()
	s.Streams.Ownership.Own(who, &req)
	started, err := s.Streams.Ownership.StartRun(s.Context(), who, req)
	if err != nil {
		s.Fatal(err)
	}
	return started
}

// drop drops the tie with a cursor at the run's start.
func (s *server) drop(tie *ownership.Tie, started runtime.Started) {
	s.Helper()
	cur, err := s.Runtime.Logs.ReadRun(s.Context(), started)
	if err != nil {
		s.Fatal(err)
	}
	tie.Drop(cur)
}

// answer answers the question of run a.
func (s *server) answer() []agui.ResumeEntry {
	s.Helper()
	asks, err := s.Runtime.Runs.Interrupts(s.Context(), local, "a")
	if err != nil || len(asks) != 1 {
		s.Fatalf("%d questions, %v", len(asks), err)
	}
	return []agui.ResumeEntry{{InterruptID: asks[0].ID, Status: "resolved", Payload: []byte("true")}}
}

func TestTie_RepeatBeforeItsRequest(t *testing.T) {
	t.Parallel()
	s := serve(t)
	started := s.typist(local)
	again := started
	again.Replayed = true
	left := s.Streams.Ownership.TieRun(peer(true), local, nil, again)
	repeat := s.Streams.Ownership.TieRun(peer(true), local, nil, again)
	s.drop(left, started)
	s.drop(s.Streams.Ownership.TieRun(peer(false), local, nil, started), started)
	s.OutlastGrace()
	s.Await("a", runtime.Running)
	s.drop(repeat, started)
	s.Await("a", runtime.Cancelled)
}

// An operator's run is cancelled, and not another user's run of the same name.
func TestTie_CancelsRunOfItsUser(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.typist(local)
	boss := runtime.MustCaller(local.Project(), "boss", runtime.RoleOperator)
	started := s.typist(boss)
	s.drop(s.Streams.Ownership.TieRun(peer(false), boss, nil, started), started)
	s.Eventually("the run is cancelled", func() bool {
		run, err := s.Runtime.Runs.Get(t.Context(), boss.AsUser(), "a")
		return err == nil && run.Status == runtime.Cancelled
	})
	s.Await("a", runtime.Running)
}

// A client has read the question and answers it on another connection, before its stream has released the run.
func TestTie_AnswerBeforeRelease(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, asked := s.owned()
	s.Keys <- transporttest.Ask
	s.Await("a", runtime.Waiting)
	_, err := s.Streams.Ownership.StartRun(t.Context(), local, runtime.StartRequest{ThreadID: "main", RunID: "b", Resume: s.answer()})
	if err != nil {
		t.Fatal(err)
	}
	asked.Release()
	close(s.Keys)
	s.Await("a", runtime.Completed)
}

func TestTie_MessageDoesNotCancelShownQuestion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, asked := s.owned()
	s.Keys <- transporttest.Ask
	s.Await("a", runtime.Waiting)
	_, err := s.Streams.Ownership.StartRun(t.Context(), local, runtime.StartRequest{Agent: "echo", ThreadID: "main", RunID: "b"})
	if !errors.Is(err, runtime.ErrThreadWaiting) {
		t.Errorf("got %v", err)
	}
	asked.Release()
	s.Await("a", runtime.Waiting)
}

func TestTie_MessageDoesNotCancelAnsweredRun(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, asked := s.owned()
	s.Keys <- transporttest.Ask
	s.Await("a", runtime.Waiting)
	if _, err := s.Runtime.Resume(t.Context(), local, "a", s.answer()); err != nil {
		t.Fatal(err)
	}
	s.Await("a", runtime.Running)
	if _, err := s.Streams.Ownership.StartRun(t.Context(), local, runtime.StartRequest{Agent: "echo", ThreadID: "main", RunID: "b"}); err != nil {
		t.Fatal(err)
	}
	asked.Release()
	close(s.Keys)
	s.Await("a", runtime.Completed)
	s.Await("b", runtime.Completed)
}

// The grace could not read the run, as its cursor was closed.
func TestTie_CancelsUnseenQuestion(t *testing.T) {
	t.Parallel()
	s := serve(t)
	started, asked := s.owned()
	s.Keys <- transporttest.Ask
	s.Await("a", runtime.Waiting)
	cur, err := s.Runtime.Logs.ReadRun(t.Context(), started)
	if err != nil {
		t.Fatal(err)
	}
	cur.Close()
	asked.Drop(cur)
	s.Await("a", runtime.Cancelled)
}
