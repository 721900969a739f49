package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
)

// pipe returns a connection that receives text in pieces of size piece().
func pipe(tb testing.TB, text string, piece func() int) *conn {
	tb.Helper()
	client, server := net.Pipe()
	tb.Cleanup(func() { _ = client.Close() })
	go func() { // ends when all is written, or the connection closes
		for len(text) > 0 {
			n := min(len(text), piece())
			if _, err := io.WriteString(server, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		_ = server.Close()
	}()
	return &conn{Conn: client}
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

func chunks(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String() + "0\r\n\r\n"
}

func TestConn_ReadsSplitFrames(t *testing.T) {
	var body strings.Builder
	body.WriteString("retry: 1000\n: ping\nid: 7\n\n")
	for id := 8; id < 60; id++ {
		fmt.Fprintf(&body, "id: %d\nevent: %s\ndata: {\"delta\": %q}\n\n", id, textContent, strings.Repeat("x", id))
		if id%9 == 0 {
			body.WriteString(": ping\n")
		}
	}
	body.WriteString("id: 60\nevent: RUN_FINISHED\ndata: {}\n\n")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var parts []string
		for rest := body.String(); rest != ""; {
			n := min(len(rest), 1+rnd.IntN(300))
			parts, rest = append(parts, rest[:n]), rest[n:]
		}
		c := pipe(t, head+chunks(parts...), func() int { return 1 + rnd.IntN(200) })
		if status, err := c.receive(); err != nil || status != 200 {
			t.Fatalf("status %d, %v", status, err)
		}
		var got strings.Builder
		next, last := int64(8), ""
		for {
			f, err := c.frame()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Write(f.raw)
			if f.id >= 8 {
				if f.id != next {
					t.Fatalf("id %d, want %d", f.id, next)
				}
				next++
				last = f.kind
			}
		}
		if got.String() != body.String() || last != runFinished {
			t.Fatalf("the frames differ from those that were sent; the last is %q", last)
		}
	}
}

func TestConn_ReadsConsecutiveAnswers(t *testing.T) {
	c := pipe(t, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 204 No Content\r\n\r\n"+head+chunks("abc"), func() int { return 1000 })
	for _, want := range []struct {
		status int
		body   string
	}{{202, "{}"}, {204, ""}, {200, "abc"}} {
		status, err := c.receive()
		if err != nil || status != want.status {
			t.Fatalf("status %d, %v, want %d", status, err, want.status)
		}
		if body, err := c.text(); err != nil || string(body) != want.body {
			t.Fatalf("body %q, %v, want %q", body, err, want.body)
		}
	}
}

func TestConn_RejectsBrokenAnswers(t *testing.T) {
	for _, text := range []string{"", "nonsense\r\n\r\n", head, head + "5\r\nabc", head + "zz\r\nabc\r\n"} {
		c := pipe(t, text, func() int { return 1000 })
		_, err := c.receive()
		if err == nil {
			_, err = c.frame()
		}
		if err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	one := "id: 123456\nevent: TEXT_MESSAGE_CONTENT\ndata: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"0199\",\"delta\":\"abcd\"}\n\n"
	batch := strings.Repeat(one, 16)
	text := head + strings.TrimSuffix(chunks(batch), "0\r\n\r\n") // without an end
	repeat := text[len(head):]
	c := &conn{Conn: endless{Reader: strings.NewReader(text), again: repeat}}
	if _, err := c.receive(); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(one)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.frame(); err != nil {
			b.Fatal(err)
		}
	}
}

// endless is a connection that repeats the same bytes.
type endless struct {
	net.Conn
	*strings.Reader
	again string
}

// Read fills p as far as it can.
func (e endless) Read(p []byte) (int, error) {
	if e.Len() == 0 {
		e.Reset(e.again)
	}
	return e.Reader.Read(p)
}

func TestConn_ReadsSplitMessages(t *testing.T) {
	var wire strings.Builder
	message := func(text string) {
		switch n := len(text); {
		case n < 126:
			wire.Write([]byte{textFrame, byte(n)})
		case n < 1<<16:
			wire.Write([]byte{textFrame, 126, byte(n >> 8), byte(n)})
		default:
			wire.Write([]byte{textFrame, 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		}
		wire.WriteString(text)
	}
	sizes := []int{0, 50, 80, 100, 125, 126, 1000, 65_000, 66_000, 200_000}
	for i, n := range sizes {
		message(fmt.Sprintf(`{"id":%d,"event":{"type":%q,"delta":%q}}`, i+8, textContent, strings.Repeat("x", n)))
	}
	message(fmt.Sprintf(`{"id":%d,"event":{"type":"RUN_FINISHED"}}`, len(sizes)+8))
	wire.Write([]byte{closeFrame, 0})
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		c := pipe(t, wire.String(), func() int { return 1 + rnd.IntN(5000) })
		c.left, c.socket = -1, true
		size, last := 0, ""
		for next := int64(8); ; next++ {
			f, err := c.frame()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || f.id != next {
				t.Fatalf("got %d, %v, want %d", f.id, err, next)
			}
			size, last = size+len(f.raw), f.kind
		}
		if size != wire.Len()-2 || last != runFinished {
			t.Fatalf("got %d bytes of %d, the last is %q", size, wire.Len(), last)
		}
	}
}
