package agui_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/transports"
)

func TestRunOfAClientThatLeftBeforeTheAnswerIsCancelled(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s.taken = func() {
		_ = conn.(*net.TCPConn).SetLinger(0) // the first write to it fails
		_ = conn.Close()
	}
	body := input("main", "a", "go", "")
	_, err = fmt.Fprintf(conn, "POST /api/v1/agui/typist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	s.Eventually("the run is there", func() bool {
		_, err := s.Runtime.Runs.Get(context.Background(), local, "a")
		return err == nil
	})
	s.Await("a", runtime.Cancelled)
}

// silent is a database that does not answer while until is set.
type silent struct {
	runtime.Store
	until atomic.Pointer[chan struct{}]
}

func (s *silent) Commit(ctx context.Context, n int64, b *data.Batch) error {
	if until := s.until.Load(); until != nil {
		<-*until
	}
	return s.Store.Commit(ctx, n, b)
}

// A client that got outcome_unknown has disconnected: a run that begins later has no owner.
func TestRunOfAClientThatWasToldThatNobodyKnowsIsCancelled(t *testing.T) {
	t.Parallel()
	db := &silent{}
	s := serveOn(t, quick, func(store runtime.Store) runtime.Store {
		db.Store = store
		return db
	}, runtime.Config{Limits: runtime.Limits{Grace: time.Second}, Patience: 2 * time.Second, Heartbeat: 20 * time.Millisecond})
	until := make(chan struct{})
	db.until.Store(&until)
	asked := make(chan *response)
	for _, run := range []struct{ id, more string }{{"owned", ""}, {"background", `, "forwardedProps": {"background": true}`}} {
		body := strings.Replace(input(run.id, run.id, "go", run.more), `"forwardedProps": {}, "forwardedProps"`, `"forwardedProps"`, 1)
		go func() { asked <- s.Do("POST", "/api/v1/agui/typist", body) }()
	}
	for range 2 {
		if got := (<-asked).All(); !strings.Contains(got, "outcome_unknown") {
			t.Errorf("while the database is silent: %s", got)
		}
	}
	db.until.Store(nil)
	close(until)
	for _, id := range []string{"owned", "background"} {
		s.Eventually("the run is there after all", func() bool {
			_, err := s.Runtime.Runs.Get(context.Background(), local, id)
			return err == nil
		})
	}
	s.Await("owned", runtime.Cancelled)
	s.Await("background", runtime.Running)
}

func TestQueuedRunOfAClientThatLeftIsCancelled(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	owner := s.typing()
	s.run("echo", "main", "b", "hello", "").Drop()
	s.Await("b", runtime.Cancelled)
	close(s.Keys)
	if got := owner.All(); !strings.Contains(got, "RUN_FINISHED") {
		t.Errorf("the thread's run ended with %s", got)
	}
}

func TestStreamThatShowedItsEndIsNotInterrupted(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{}, mirror{})
	long := strings.Repeat("x", 1_500_000)
	first := s.run("mirror", "main", "a", long, "").All()
	again := s.run("mirror", "main", "a", long, "")
	for again.Line() != "event: RUN_FINISHED\n" { // it is on its way, and larger than what the connection holds
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.Stop()
	}()
	s.Eventually("nobody is listened to any more", func() bool {
		c, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	rest := again.All()
	<-stopped
	if strings.Contains(rest, "interrupted") || !strings.HasSuffix(first, rest) {
		t.Errorf("the stream ended with %s", brief(rest))
	}
}

func TestRepeatOfAnAnswerShowsWhatFollowedIt(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	const pick = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	ask := input("main", "a", script(`{"tool": "pick", "args": {}}, {"say": "picked"}`), pick)
	post := func(body string) string { return s.Do("POST", "/api/v1/agui/scripted", body).All() }
	first := post(ask)
	answer := turn("main", "b", `{"id": "r", "role": "tool", "toolCallId": "`+calls.FindStringSubmatch(first)[1]+`", "content": "red"}`, pick)
	second := post(answer)
	if got := post(answer); got != second || !strings.Contains(got, "picked") {
		t.Errorf("got %s, want %s", got, second)
	}
	if got := post(ask); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
}
