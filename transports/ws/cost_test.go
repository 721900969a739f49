package ws_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/batonrun/baton/transports"
)

// browser is what a browser says when it asks for a WebSocket, or for a stream.
const browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130 Safari/537.36\r\n" +
	"Accept-Language: en\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nCache-Control: no-cache\r\nOrigin: http://localhost\r\n"

func upgrading(path string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + browser +
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
		"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
}

func TestIdleSocketCostsLittle(t *testing.T) { // alone: it measures
	if testing.Short() {
		t.Skip("opens thousands of connections")
	}
	for _, c := range []struct {
		name, path, shown, say string
		limit                  int
	}{
		{"of a thread", "/api/v1/agent/runs/main/ws?follow=true", "STEP_STARTED", "", 24 << 10},
		{"before its run", "/api/v1/agui/typist/ws", "", "", 28 << 10},
		{"with one of many threads", "/api/v1/ws", "STEP_STARTED", `{"op": "subscribe", "threadId": "main"}`, 32 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spawn(t, transports.StreamConfig{})
			s.Start(`{"agent": "typist", "threadId": "main", "content": "some words to replay"}`)
			n := 2000
			if raced { // its sizes mean nothing
				n = 100
			}
			s.idle(100, c.path, c.shown, c.say)
			each := c.limit + 1
			for try := 0; try < 3 && each > c.limit; try++ { // what else the process does in the meantime varies
				s.Ask("free")
				before := s.RSS()
				s.idle(n, c.path, c.shown, c.say)
				opened := (s.RSS() - before) / n
				s.Ask("free")
				each = (s.RSS() - before) / n
				t.Logf("an idle socket costs %d bytes, %d before a collection", each, opened)
			}
			if each > c.limit && !raced {
				t.Errorf("an idle socket costs %d bytes, want at most %d", each, c.limit)
			}
		})
	}
}

// idle opens n sockets, sends a command on each, and waits for their first frames.
func (c *child) idle(n int, path, shown, say string) {
	c.Helper()
	for range n {
		conn := c.Dial(upgrading(path))
		in := bufio.NewReaderSize(conn, 1024)
		resp, err := http.ReadResponse(in, nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Extensions") != "" {
			c.Fatalf("got %+v, %v", resp, err)
		}
		if say != "" {
			_, _ = conn.Write(append([]byte{0x81, 0x80 | byte(len(say)), 0, 0, 0, 0}, say...))
		}
		for got := []byte(nil); !bytes.Contains(got, []byte(shown)); {
			b, err := in.ReadByte()
			if err != nil {
				c.Fatal(err)
			}
			got = append(got, b)
		}
	}
}

// BenchmarkDelivery tells what an event costs the server for each of 1 000 viewers, in µs of CPU, over WebSocket
// and as server-sent events, and how that compares with a loop that does nothing but write the same bytes.
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
	} {
		b.Run(c.name, func(b *testing.B) {
			s := spawn(b, transports.StreamConfig{PaceAbove: c.above})
			for i := range b.N {
				sse, _ := s.delivery(b, fmt.Sprintf("sse-%d", i), "events", viewers, c.bursts/part, c.size, c.pauseMs)
				ws, frame := s.delivery(b, fmt.Sprintf("ws-%d", i), "ws", viewers, c.bursts/part, c.size, c.pauseMs)
				bare := float64(s.Bare(viewers, c.bursts/part, c.size*frame)) / float64(viewers*(c.bursts/part)*c.size)
				b.ReportMetric(sse, "µs/sse")
				b.ReportMetric(ws, "µs/ws")
				b.ReportMetric(bare, "µs/bare")
				b.ReportMetric(ws/sse, "ws/sse")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// delivery has an agent write bursts to so many viewers, and returns the µs of CPU of each delivery and the
// length of a frame.
func (c *child) delivery(b *testing.B, thread, route string, viewers, bursts, size, pauseMs int) (float64, int) {
	b.Helper()
	s := *c
	s.Start(fmt.Sprintf(`{"agent": "echo", "threadId": %q, "content": "hello"}`, thread))
	var ended sync.WaitGroup
	var mu sync.Mutex
	frame := 0
	path := "/api/v1/agent/runs/" + thread + "/" + route + "?follow=true"
	for range viewers {
		ask := upgrading(path)
		if route == "events" {
			ask = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + browser + "\r\n"
		}
		conn := s.Dial(ask)
		last, buf := []byte("RUN_FINISHED"), make([]byte, 64<<10)
		for got := []byte(nil); !bytes.Contains(got, last); { // the run that was there
			n, err := conn.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			got = append(got, buf[:n]...)
		}
		ended.Go(func() {
			got := 0
			for {
				n, err := conn.Read(buf)
				if got += n; err != nil || bytes.Contains(buf[:n], last) {
					break
				}
			}
			mu.Lock()
			frame = got / (bursts*size + 7)
			mu.Unlock()
			_ = conn.Close()
		})
	}
	start := s.Ask("cpu")
	s.Start(fmt.Sprintf(`{"agent": "drummer", "threadId": %q, "content": "{\"bursts\": %d, \"size\": %d, \"pauseMs\": %d}"}`, thread, bursts, size, pauseMs))
	ended.Wait()
	return float64(s.Ask("cpu")-start) / float64(viewers*bursts*size), frame
}
