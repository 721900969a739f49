package sse_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

func watch(version, more string) string {
	return "GET /api/v1/agent/runs/main/events HTTP/" + version + "\r\nHost: localhost\r\n" + more + "\r\n"
}

func (s *server) typist() {
	s.Helper()
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`)
}

func TestClientThatLeftIsNoticed(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*net.TCPConn){
		"close": func(c *net.TCPConn) { _ = c.Close() },
		"reset": func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"end":   func(c *net.TCPConn) { _ = c.CloseWrite() },
		"end behind unread bytes": func(c *net.TCPConn) {
			_, _ = io.WriteString(c, strings.Repeat("x", 100_000))
			_ = c.CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{Ping: time.Hour}) // no ping finds them out
			s.typist()
			before := transporttest.Sockets(t)
			for range 20 {
				c := s.Dial(watch("1.1", ""))
				if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				leave(c)
			}
			s.Eventually("all streams have ended", func() bool { return s.Streams.Open() == 0 })
			if !strings.HasPrefix(name, "end") { // whose client keeps its descriptor
				s.Eventually("their descriptors are free", func() bool { return transporttest.Sockets(t) <= before })
			}
		})
	}
}

func TestReaderThatStopsIsClosedAndSlowsNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second, Ping: 300 * time.Millisecond}) // which the other reader meets on a busy machine, too
	s.Script("main", strings.TrimSuffix(strings.Repeat(`{"tokens": 1000, "size": 400},`, 20), ","))
	stuck := s.Dial(watch("1.1", ""))
	_ = stuck.SetReadBuffer(4096)
	if all := frames(s.get("main", "").All()); len(all) < 20_000 {
		t.Errorf("the other reader got %d events", len(all))
	}
	s.Eventually("the stuck stream has ended", func() bool { return s.Streams.Open() == 0 })
	n, err := io.Copy(io.Discard, stuck)
	if err == nil {
		t.Errorf("the stuck reader got %d bytes and an orderly end", n)
	}
}

func TestSilentStreamIsPinged(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 150 * time.Millisecond})
	s.typist()
	start := time.Now() // a busy machine reads pings late, but none before it is sent
	r := s.get("main", "")
	r.Until("STEP_STARTED")
	for range 3 {
		if b := r.Line(); b != ": ping\n" {
			t.Fatalf("got %q", b)
		}
	}
	if took := time.Since(start); took < 3*120*time.Millisecond {
		t.Errorf("three pings came within %v", took)
	}
	s.Keys <- "hello"
	r.Until("TEXT_MESSAGE_START")
	close(s.Keys)
	r.Until("RUN_FINISHED")
}

func TestSilentReaderThatStopsIsClosed(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second, Ping: 15 * time.Millisecond, SendBuffer: 1})
	s.typist()
	stuck := s.Dial(watch("1.1", ""))
	_ = stuck.SetReadBuffer(1)
	s.Eventually("the stream has begun", func() bool { return s.Streams.Open() == 1 })
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
}

func TestWhatAClientSendsOnAStreamIsIgnored(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 150 * time.Millisecond})
	s.typist()
	c := s.Dial(watch("1.1", "") + watch("1.1", "") + "garbage")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := s.Reading(resp)
	for r.Line() != ": ping\n" {
	}
	_, _ = io.WriteString(c, strings.Repeat("more garbage", 10_000))
	close(s.Keys)
	if got := r.All(); !strings.Contains(got, "RUN_FINISHED") {
		t.Errorf("got %s", got)
	}
}

func TestProxiesThatCloseAndOldClients(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", words)
	want := s.get("main", "?follow=true").Until("RUN_FINISHED")
	for _, request := range []string{
		watch("1.1", "Connection: close\r\n"), watch("1.0", ""), watch("1.0", "Connection: keep-alive\r\n"),
	} {
		c := s.Dial(request)
		raw, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
		if old := strings.Contains(request, "HTTP/1.0"); strings.Contains(head, "chunked") == old {
			t.Errorf("%q: got the head %s", request, head)
		} else if old && body != want {
			t.Errorf("%q: got %s", request, body)
		}
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(raw))), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%q: got %v %s", request, err, got)
		}
	}
}

func TestGatheredEventsComeTogether(t *testing.T) {
	t.Parallel()
	var events, last time.Duration
	for range 5 { // a busy machine adds its own
		s := serve(t, transports.StreamConfig{})
		s.typist()
		r := s.get("main", "?gather=1000")
		r.Until("STEP_STARTED")
		start := time.Now()
		for i := range 10 {
			s.Keys <- fmt.Sprint(i)
		}
		r.Until(`"delta":"9"`)
		events = time.Since(start)
		start = time.Now()
		s.Keys <- "last"
		close(s.Keys)
		r.Until("RUN_FINISHED")
		last = time.Since(start)
		if events > 500*time.Millisecond && last < 500*time.Millisecond {
			return
		}
	}
	t.Errorf("ten events were held back %v, the terminal event %v", events, last)
}
