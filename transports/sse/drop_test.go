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
	r := s.do("POST", "/api/v1/agent/runs", body, append(header, "Accept", stream)...)
	if first := r.next(); !strings.Contains(first, "RUN_STARTED") {
		s.Fatalf("got %s", first)
	}
	return r
}

func (r *response) drop() { _ = r.Body.Close() }

func TestDroppedStreamCancelsItsRun(t *testing.T) {
	s := serve(t, quick)
	s.typing("").drop()
	s.status("a", "CANCELLED")
}

func TestBackgroundRunOutlivesItsStream(t *testing.T) {
	s := serve(t, quick)
	s.typing(`, "forwardedProps": {"background": true}`).drop()
	s.eventually("the stream has ended", func() bool { return s.streams.Open() == 0 })
	s.keys <- "still here"
	close(s.keys)
	s.status("a", "COMPLETED")
}

func TestRunThatEndsInTheGraceIsNotCancelled(t *testing.T) {
	s := serve(t, long)
	s.typing("").drop()
	s.eventually("the stream has ended", func() bool { return s.streams.Open() == 0 })
	close(s.keys)
	s.status("a", "COMPLETED")
}

func TestRepeatTakesTheRunOver(t *testing.T) {
	s := serve(t, transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: time.Second})
	s.typing("", "Idempotency-Key", "k").drop()
	s.eventually("the stream has ended", func() bool { return s.streams.Open() == 0 })
	r := s.typing("", "Idempotency-Key", "k")
	s.OutlastGrace()
	s.keys <- "still here"
	r.until("still here")
	r.drop()
	s.status("a", "CANCELLED")
}

func TestRepeatBeforeTheDropOwnsTheRun(t *testing.T) {
	s := serve(t, quick)
	first := s.typing("", "Idempotency-Key", "k")
	second := s.typing("", "Idempotency-Key", "k")
	first.drop()
	s.eventually("the first stream has ended", func() bool { return s.streams.Open() == 1 })
	s.OutlastGrace()
	s.keys <- "still here"
	close(s.keys)
	second.until("RUN_FINISHED")
	s.status("a", "COMPLETED")
}

func TestJSONRepeatDetachesTheRun(t *testing.T) {
	s := serve(t, quick)
	body := `{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`
	r := s.do("POST", "/api/v1/agent/runs", body, "Accept", stream, "Idempotency-Key", "k")
	r.next()
	s.start(body, "Idempotency-Key", "k")
	r.drop()
	s.eventually("the stream has ended", func() bool { return s.streams.Open() == 0 })
	s.OutlastGrace()
	s.keys <- "still here"
	close(s.keys)
	s.status("a", "COMPLETED")
}

func TestAnotherRunCancelsADroppedOneAtOnce(t *testing.T) {
	for name, accept := range map[string]string{"stream": stream, "json": "application/json"} {
		t.Run(name, func(t *testing.T) {
			cfg := long
			cfg.Ping = time.Hour // nobody looks but the request itself
			s := serve(t, cfg)
			s.typing("").drop()
			r := s.do("POST", "/api/v1/agent/runs",
				`{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b", "multitask": "reject"}`, "Accept", accept)
			if r.StatusCode > 299 {
				t.Fatalf("got %d %s", r.StatusCode, r.all())
			}
			s.status("a", "CANCELLED")
			s.status("b", "COMPLETED")
		})
	}
}

func TestAnotherRunWaitsForOneThatIsWatched(t *testing.T) {
	s := serve(t, quick)
	r := s.typing("")
	s.start(`{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b"}`)
	s.status("b", "QUEUED")
	close(s.keys)
	r.until("RUN_FINISHED")
	s.status("a", "COMPLETED")
	s.status("b", "COMPLETED")
}

func TestViewerDoesNotOwnARun(t *testing.T) {
	s := serve(t, quick)
	s.start(`{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`)
	r := s.get("main", "")
	r.until("RUN_STARTED")
	r.drop()
	s.eventually("the stream has ended", func() bool { return s.streams.Open() == 0 })
	s.OutlastGrace()
	s.keys <- "still here"
	close(s.keys)
	s.status("a", "COMPLETED")
}
