package sse_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/transports"
)

func TestIdleStreamCostsLittle(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	for _, c := range []struct {
		name, agent, last string
		limit             int
	}{
		{"of a run", "typist", "STEP_STARTED", 16 << 10},
		{"after a replay", "echo", "RUN_FINISHED", 32 << 10}, // its cursor keeps the records it has read from the store
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spawn(t, transports.StreamConfig{})
			s.Start(fmt.Sprintf(`{"agent": %q, "threadId": "main", "content": "some words to replay"}`, c.agent))
			for c.agent == "echo" && s.get("main", "?after_event_id=latest").StatusCode != http.StatusNoContent {
			}
			n := 2000
			if raced { // its sizes mean nothing
				n = 100
			}
			s.idle(100, c.last)
			s.Ask("free")
			before := s.RSS()
			s.idle(n, c.last)
			opened := (s.RSS() - before) / n
			s.Ask("free")
			each := (s.RSS() - before) / n
			t.Logf("an idle stream costs %d bytes, %d before a collection", each, opened)
			if each > c.limit && !raced {
				t.Errorf("an idle stream costs %d bytes, want at most %d", each, c.limit)
			}
		})
	}
}

// idle opens n streams, each of which has shown the event called last.
func (c *child) idle(n int, last string) {
	c.Helper()
	for range n {
		conn := c.Dial("GET /api/v1/agent/runs/main/events?follow=true HTTP/1.1\r\nHost: localhost\r\n" +
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari/537.36\r\n" +
			"Accept: text/event-stream\r\nAccept-Language: en\r\nReferer: http://localhost/\r\n\r\n")
		in := bufio.NewReaderSize(conn, 512)
		for line := ""; !strings.Contains(line, last); {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				c.Fatal(err)
			}
		}
	}
}

// BenchmarkDelivery measures the cost of an event to the server for each of 1 000 viewers, in µs of CPU, and how
// that compares with a loop that does nothing but write the same bytes.
func BenchmarkDelivery(b *testing.B) {
	viewers, part := 1000, 1
	if testing.Short() {
		viewers, part = 20, 20
	}
	for _, c := range []struct {
		name                  string
		bursts, size, pauseMs int
		above                 int // paced above so many
	}{
		{"one by one", 200, 1, 20, 1 << 30},
		{"bursts of 16", 100, 16, 30, 1 << 30},
		{"paced, 1 per ms", 3000, 1, 1, 64},
		{"paced, bursts of 16", 100, 16, 30, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := spawn(b, transports.StreamConfig{PaceAbove: c.above})
			for range b.N {
				s.delivery(b, viewers, c.bursts/part, c.size, c.pauseMs)
			}
		})
	}
}

// delivery has an agent write bursts to so many viewers, and then a bare loop the same.
func (c *child) delivery(b *testing.B, viewers, bursts, size, pauseMs int) {
	b.Helper()
	s := *c
	s.Start(`{"agent": "echo", "threadId": "main", "content": "hello"}`)
	var ready, ended sync.WaitGroup
	var mu sync.Mutex
	frame := 0
	for range viewers {
		ready.Add(1)
		conn := s.Dial("GET /api/v1/agent/runs/main/events?follow=true&after_event_id=latest HTTP/1.1\r\nHost: localhost\r\n\r\n")
		ended.Go(func() {
			got, last, first := 0, []byte("RUN_FINISHED"), true
			for buf := make([]byte, 64<<10); ; {
				n, err := conn.Read(buf)
				if first {
					ready.Done()
					first = false
				}
				got += n
				if err != nil || bytes.Contains(buf[:n], last) {
					break
				}
			}
			mu.Lock()
			frame = got / (bursts*size + 7)
			mu.Unlock()
			_ = conn.Close()
		})
	}
	ready.Wait()
	start := s.Ask("cpu")
	s.Start(fmt.Sprintf(`{"agent": "drummer", "threadId": "main", "content": "{\"bursts\": %d, \"size\": %d, \"pauseMs\": %d}"}`, bursts, size, pauseMs))
	ended.Wait()
	ours := float64(s.Ask("cpu")-start) / float64(viewers*bursts*size)

	bare := float64(s.Bare(viewers, bursts, size*frame)) / float64(viewers*bursts*size)
	b.ReportMetric(ours, "µs/delivery")
	b.ReportMetric(bare, "µs/bare")
	b.ReportMetric(ours/bare, "ratio")
	b.ReportMetric(0, "ns/op")
}
