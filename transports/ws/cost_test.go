package ws_test

import (
	"bufio"
	"bytes"
	"net/http"
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
