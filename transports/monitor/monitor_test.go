package monitor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

const (
	events = "/api/v1/events"
	ofEcho = "/api/v1/agents/stream?agent=echo"
	states = "/api/v1/agui/events"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/api/v1/agents/stream":              {http.StatusBadRequest, "invalid_request"},
		"/api/v1/agents/stream?agent=":       {http.StatusBadRequest, "invalid_request"},
		"/api/v1/agents/stream?agent=nobody": {http.StatusNotFound, "not_found"},
		"/api/v1/agents/stream?agent=demo":   {http.StatusNotFound, "not_found"}, // a workflow
		ofEcho + "&projectId=elsewhere":      {http.StatusNotFound, "not_found"},
		events + "?projectId=elsewhere":      {http.StatusNotFound, "not_found"},
		states + "?projectId=elsewhere":      {http.StatusNotFound, "not_found"},
	} {
		r := s.get(path)
		var p transports.Problem
		if err := json.Unmarshal([]byte(r.All()), &p); err != nil || r.StatusCode != want.status || p.Code != want.code || p.Detail == "" {
			t.Errorf("%s: got %d %v", path, r.StatusCode, p)
		}
	}
	if r := s.get(events + "?projectId=default"); r.StatusCode != http.StatusOK {
		t.Errorf("the own project: got %d", r.StatusCode)
	}
}

func TestSilentStreamsAreKeptAlive(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 150 * time.Millisecond})
	for path, want := range map[string]string{
		events: "event: keepalive\ndata: {}\n\n",
		ofEcho: "event: keepalive\ndata: {}\n\n",
		states: ": ping\n",
	} {
		r := s.get(path)
		r.Next()
		for range 2 {
			var lines []string
			for range strings.Count(want, "\n") {
				lines = append(lines, r.Line())
			}
			if got := strings.Join(lines, ""); got != want {
				t.Errorf("%s: got %q", path, got)
			}
		}
	}
}

func TestReconnectBeforeTheFirstEventMissesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, path := range []string{events, ofEcho, states} {
		r := s.get(path)
		r.Next()
		if r.LastID == "" {
			t.Fatalf("%s: there is no id to come back with", path)
		}
		_ = r.Body.Close()
		run := fmt.Sprint("run", len(path))
		s.start("echo", run, "hello")
		s.ended(run)
		again := s.resume(path, r)
		if got := again.Until("hello"); !strings.HasPrefix(got, "retry: 1000\nid: ") || strings.Contains(got, "SNAPSHOT") {
			t.Errorf("%s: got %s", path, got)
		}
	}
}

func TestUnknownPlaceBeginsAnew(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, id := range []string{"0123456789ab-7", "nonsense", "57", "-", "a-b-c"} {
		for _, path := range []string{events, ofEcho} {
			r := s.get(path, "Last-Event-ID", id)
			if first := r.Next(); first != "retry: 1000\nid: "+r.LastID+"\nevent: reset\ndata: {}\n\n" {
				t.Errorf("%s behind %q: got %q", path, id, first)
			}
		}
		r := s.get(states, "Last-Event-ID", id)
		if first := r.Next(); !strings.HasPrefix(first, "retry: 1000\nid: "+r.LastID+"\nevent: STATE_SNAPSHOT\n") {
			t.Errorf("behind %q: got %q", id, first)
		}
	}
}

func TestPolyfillComesBackToItsPlace(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	r := s.get(events)
	r.Next()
	_ = r.Body.Close()
	s.start("echo", "one", "hello")
	s.ended("one")
	again := s.get(events + "?lastEventId=" + url.QueryEscape(r.LastID))
	s.start("echo", "two", "goodbye")
	if got := again.Until("agent_complete"); !strings.Contains(got, "hello") {
		t.Errorf("got %s", got)
	}
}

func TestNewProcessBeginsAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "baton.db")
	s := serveFile(t, transports.StreamConfig{}, path)
	r := s.get(events)
	r.Next()
	s.start("echo", "one", "hello")
	r.Until("hello")
	s.Stop()
	s = serveFile(t, transports.StreamConfig{}, path)
	again := s.get(events, "Last-Event-ID", r.LastID)
	if got := again.Until("data: "); !strings.Contains(got, "event: reset\n") || again.LastID == r.LastID {
		t.Errorf("behind %s: got %s", r.LastID, got)
	}
}

func TestStoppingServerSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	var all []*response
	for _, path := range []string{events, ofEcho, states} {
		r := s.get(path)
		r.Next()
		all = append(all, r)
	}
	s.Stop()
	for _, r := range all {
		text, ok := strings.CutPrefix(strings.TrimSuffix(r.All(), "\n"), "retry: ")
		if ms, err := strconv.Atoi(text); !ok || err != nil || ms < 1000 || ms > 5000 {
			t.Errorf("the stream ended with %q", text)
		}
	}
}

func TestReaderThatStopsIsDroppedAndSlowsNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second})
	stuck, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	_ = stuck.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := io.WriteString(stuck, "GET "+states+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s.Eventually("the stuck stream is open", func() bool { return s.Streams.Open() == 1 })
	quick := s.get(events)
	quick.Next()
	s.script("long", `{"tokens": 500, "size": 4000, "delayMs": 1}`)
	if n := strings.Count(quick.Until("agent_complete"), "event: token\n"); n != 500 {
		t.Errorf("the other reader got %d tokens", n)
	}
	s.ended("long")
	s.Eventually("the stuck stream has ended", func() bool { return s.Streams.Open() == 1 })
}

func TestReaderThatFallsBehindIsSentAway(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	r := s.get(events)
	r.Next()
	s.script("long", strings.TrimSuffix(strings.Repeat(`{"tokens": 1000, "size": 200},`, 7), ","))
	s.ended("long")
	got := 0
	for {
		b, err := r.Block()
		if err != nil {
			if !errors.Is(err, io.EOF) || b != "" {
				t.Errorf("the stream ended with %v and %q", err, b)
			}
			break
		}
		got += strings.Count(b, "event: token\n")
	}
	if got == 0 || got >= 7000 {
		t.Errorf("it got %d tokens", got)
	}
	if got := s.resume(events, r).Until("data: "); !strings.Contains(got, "event: reset\n") {
		t.Errorf("it goes on with %s", got)
	}
}
