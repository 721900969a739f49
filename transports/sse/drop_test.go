package sse_test

import (
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

// quick makes the sweep look often, and the grace short.
var quick = transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 50 * time.Millisecond}

// long is the same with a grace that no test waits for.
var long = transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: time.Hour}

// typing starts run a, of the typist, as a stream.
func (s *server) typing(more string, header ...string) *response {
	s.Helper()
	body := `{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"` + more + `}`
	r := s.Do("POST", "/api/v1/agent/runs", body, append(header, "Accept", stream)...)
	if first := r.Next(); !strings.Contains(first, "RUN_STARTED") {
		s.Fatalf("got %s", first)
	}
	return r
}

func TestDroppedStreamCancelsItsRun(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	s.typing("").Drop()
	s.Await("a", "CANCELLED")
}

func TestBackgroundRunOutlivesItsStream(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	s.typing(`, "forwardedProps": {"background": true}`).Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	s.Keys <- "still here"
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

func TestRunThatEndsInTheGraceIsNotCancelled(t *testing.T) {
	t.Parallel()
	s := serve(t, long)
	s.typing("").Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

func TestRepeatTakesTheRunOver(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: time.Second})
	s.typing("", "Idempotency-Key", "k").Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	r := s.typing("", "Idempotency-Key", "k")
	s.OutlastGrace()
	s.Keys <- "still here"
	r.Until("still here")
	r.Drop()
	s.Await("a", "CANCELLED")
}

func TestJSONRepeatDetachesTheRun(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	body := `{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`
	r := s.Do("POST", "/api/v1/agent/runs", body, "Accept", stream, "Idempotency-Key", "k")
	r.Next()
	s.Start(body, "Idempotency-Key", "k")
	r.Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	s.OutlastGrace()
	s.Keys <- "still here"
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

func TestAnotherRunCancelsADroppedOneAtOnce(t *testing.T) {
	t.Parallel()
	for name, accept := range map[string]string{"stream": stream, "json": "application/json"} {
		t.Run(name, func(t *testing.T) {
			cfg := long
			cfg.Ping = time.Hour // nobody looks but the request itself
			s := serve(t, cfg)
			s.typing("").Drop()
			r := s.Do("POST", "/api/v1/agent/runs",
				`{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b", "multitask": "reject"}`, "Accept", accept)
			if r.StatusCode > 299 {
				t.Fatalf("got %d %s", r.StatusCode, r.All())
			}
			s.Await("a", "CANCELLED")
			s.Await("b", "COMPLETED")
		})
	}
}

func TestAnotherRunWaitsForOneThatIsWatched(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	r := s.typing("")
	s.Start(`{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b"}`)
	s.Await("b", "QUEUED")
	close(s.Keys)
	r.Until("RUN_FINISHED")
	s.Await("a", "COMPLETED")
	s.Await("b", "COMPLETED")
}

func TestViewerDoesNotOwnARun(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`)
	r := s.get("main", "")
	r.Until("RUN_STARTED")
	r.Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	s.OutlastGrace()
	s.Keys <- "still here"
	close(s.Keys)
	s.Await("a", "COMPLETED")
}
