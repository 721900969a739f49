package sse_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/transports"
)

// frames cuts a stream into its events, without the text before the first and without empty blocks.
func frames(stream string) (all []string) {
	for b := range strings.SplitAfterSeq(strings.TrimPrefix(stream, "retry: 1000\n"), "\n\n") {
		if strings.Contains(b, "data: ") {
			all = append(all, b)
		}
	}
	return all
}

const words = `{"say": "one two three"}, {"tool": "calculator", "args": {"expression": "6*7"}}, {"state": {"n": 1}}, {"say": "four five"}`

func TestResumeIsByteForByte(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", words).RunID, "COMPLETED")
	const head = "retry: 1000\n"
	all := frames(s.get("main", "").Until("RUN_FINISHED"))
	for n := range all {
		want := strings.Join(all[n:], "")
		if got := s.get("main", "", "Last-Event-ID", fmt.Sprint(n)).All(); got != head+want {
			t.Errorf("behind Last-Event-ID %d: got\n%s\nwant\n%s", n, got, want)
		}
		if got := s.get("main", fmt.Sprintf("?after_event_id=%d", n)).All(); got != head+want {
			t.Errorf("behind after_event_id %d: got\n%s\nwant\n%s", n, got, want)
		}
	}
}

func TestCursorHeaderWins(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", words).RunID, "COMPLETED")
	r := s.get("main", "?after_event_id=1", "Last-Event-ID", "3")
	if got := r.Until("event: "); !strings.HasPrefix(got, "retry: 1000\nid: 4\n") {
		t.Errorf("got %s", got)
	}
}

// Polyfills of EventSource reconnect with the same URL, and send Last-Event-ID in its query.
func TestCursorOfAPolyfillWins(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", words).RunID, "COMPLETED")
	for _, query := range []string{"?lastEventId=3", "?after_event_id=1&lastEventId=3", "?after_event_id=latest&lastEventId=3"} {
		if got := s.get("main", query).Until("event: "); !strings.HasPrefix(got, "retry: 1000\nid: 4\n") {
			t.Errorf("%s: got %s", query, got)
		}
	}
	if got := s.get("main", "?lastEventId=3", "Last-Event-ID", "4").Until("event: "); !strings.HasPrefix(got, "retry: 1000\nid: 5\n") {
		t.Errorf("the header beside it: got %s", got)
	}
	if got := s.get("main", "?lastEventId=").Until("event: "); !strings.HasPrefix(got, "retry: 1000\nid: 1\n") {
		t.Errorf("without an id: got %s", got)
	}
	last := len(frames(s.get("main", "").All()))
	if r := s.get("main", fmt.Sprintf("?lastEventId=%d", last)); r.StatusCode != http.StatusNoContent {
		t.Errorf("at the end: got %d", r.StatusCode)
	}
}

func TestNothingMoreIs204(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	run := s.Script("main", words)
	s.Await(run.RunID, "COMPLETED")
	last := len(frames(s.get("main", "").All()))
	for _, query := range []string{fmt.Sprintf("?after_event_id=%d", last), "?after_event_id=latest"} {
		r := s.get("main", query)
		if body := r.All(); r.StatusCode != http.StatusNoContent || body != "" {
			t.Errorf("%s: got %d %q", query, r.StatusCode, body)
		}
	}
	if r := s.get(run.ConversationID, "?after_event_id=latest"); r.StatusCode != http.StatusNoContent {
		t.Errorf("by conversationId: got %d", r.StatusCode)
	}
}

func TestWaitingRunEndsTheStream(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", `{"ask": {"message": "Deploy?", "schema": {"type": "object"}}}`)
	all := frames(s.get("main", "").All())
	if last := all[len(all)-1]; !strings.Contains(last, `"type":"interrupt"`) {
		t.Errorf("the stream ends with %s", last)
	}
	if r := s.get("main", fmt.Sprintf("?after_event_id=%d", len(all))); r.StatusCode != http.StatusNoContent {
		t.Errorf("got %d", r.StatusCode)
	}
}

func TestFollowGoesOnOverRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "one"}`).RunID, "COMPLETED")
	r := s.get("main", "?follow=true&after_event_id=latest")
	if first := r.Next(); !strings.HasPrefix(first, "retry: 1000\nid: ") || strings.Contains(first, "id: 0") {
		t.Fatalf("got %q", first)
	}
	for range 2 {
		s.Script("main", `{"say": "two"}`)
		if got := r.Until("RUN_FINISHED"); !strings.Contains(got, `"delta":"two"`) || strings.Contains(got, "one") {
			t.Errorf("got %s", got)
		}
	}
}

func TestNamesArePercentDecodedOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	const name = "a/b c%2Fd ü?"
	run := s.Script(name, `{"say": "hi"}`)
	if want := "/api/v1/agent/runs/a%2Fb%20c%252Fd%20%C3%BC%3F/events?after_event_id=0"; run.EventsURL != want {
		t.Errorf("got %s, want %s", run.EventsURL, want)
	}
	if got := s.Do("GET", run.EventsURL, "").All(); !strings.Contains(got, `"threadId":"`+name+`"`) {
		t.Errorf("got %s", got)
	}
}

func TestBadCursorsAndUnknownThreads(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "one"}`).RunID, "COMPLETED")
	for _, cursor := range []string{"-1", "abc", "1.5", "+1", "1e3", "99999999999999999999", "9000000000000000000", "1000"} {
		s.get("main", "?after_event_id="+cursor).Refused(http.StatusBadRequest, "invalid_cursor")
		s.get("main", "", "Last-Event-ID", cursor).Refused(http.StatusBadRequest, "invalid_cursor")
	}
	for _, query := range []string{"?follow=maybe", "?gather=-1", "?gather=1001", "?gather=x"} {
		s.get("main", query).Refused(http.StatusBadRequest, "invalid_request")
	}
	for _, name := range []string{"other", "%25zz", "%00", strings.Repeat("x", 201)} {
		s.get(name, "").Refused(http.StatusNotFound, "not_found")
	}
	s.get("main", "?projectId=other").Refused(http.StatusNotFound, "not_found")
}

func TestHeadIsAnsweredWithoutAStream(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", `{"say": "one"}`)
	r := s.Do("HEAD", "/api/v1/agent/runs/main/events", "")
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %d %v", r.StatusCode, r.Header)
	}
	if n := s.Streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}
