package sse_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
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
