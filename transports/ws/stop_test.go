package ws_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton/transports"
)

func TestStoppingServerClosesSocketsAndEndsNoRun(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: time.Hour}) // a busy machine takes long for so many sockets, which do not answer meanwhile
	run := s.typing("")
	var sockets []*socket
	for i := range 300 { // more than two slices
		c := s.many()
		if i%2 == 0 {
			c.done(`{"op": "subscribe", "threadId": "main", "afterEventId": "latest"}`)
		} else {
			_ = c.Close()
			c = s.watch("main", "?after_event_id=latest")
		}
		sockets = append(sockets, c)
	}
	waiting := s.open("/api/v1/agui/typist/ws")
	deaf := s.Dial(upgrading("/api/v1/ws")) // never answers
	began, took := time.Now(), make(chan time.Duration)
	go func() { s.Stop(); took <- time.Since(began) }()
	all := run.all(1001)
	if len(all) != 1 || !strings.Contains(all[0], `"type":"RUN_ERROR"`) || !strings.Contains(all[0], `"code":"interrupted"`) {
		t.Errorf("the run's socket ended with %s", all)
	}
	for _, c := range append(sockets, waiting) {
		if all := c.all(1001); all != nil {
			t.Fatalf("got %s", all)
		}
	}
	if d := <-took; d > patience/2 {
		t.Errorf("stopping took %v", d)
	}
	if n := s.Streams.Open(); n != 0 {
		t.Errorf("%d sockets are open", n)
	}
	_, _ = io.Copy(io.Discard, deaf)
}

// quiet opens a socket that reads nothing yet, with little memory for it.
func (s *server) quiet(path string) *socket {
	s.Helper()
	c, _ := s.dial(path, func(c *net.TCPConn) { _ = c.SetReadBuffer(64 << 10) })
	return c
}

const flood = `{"tokens": 1000, "size": 400}`

func TestSocketThatTakesNothingIsClosedAndSlowsNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second, Ping: time.Second})
	s.Script("main", strings.TrimSuffix(strings.Repeat(flood+",", 5), ","))
	s.quiet("/api/v1/agent/runs/main/ws").next()
	s.quiet("/api/v1/ws").done(`{"op": "subscribe", "threadId": "main"}`)
	if all := s.watch("main", "").all(1000); len(all) < 5_000 {
		t.Errorf("the other reader got %d events", len(all))
	}
	s.Eventually("the stuck sockets have ended", func() bool { return s.Streams.Open() == 0 })
	for _, n := range s.events("main") {
		if strings.Contains(string(n.Event), "RUN_FINISHED") {
			return
		}
	}
	t.Error("the run has not ended")
}

func TestSlowSocketOfManyThreadsIsToldWhy(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second, Ping: time.Second})
	s.Script("main", strings.TrimSuffix(strings.Repeat(flood+",", 5), ","))
	c := s.quiet("/api/v1/ws")
	c.done(`{"op": "subscribe", "threadId": "main"}`)
	s.Eventually("the stuck socket has ended", func() bool { return s.Streams.Open() == 0 })
	c.all(4008)
}

func TestSlowSocketGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: 5 * time.Second, Ping: time.Second})
	s.Script("main", strings.TrimSuffix(strings.Repeat(flood+",", 5), ","))
	c := s.quiet("/api/v1/agent/runs/main/ws")
	got := []string{c.next()} // and so the stream is open
	s.Eventually("the stuck socket has ended", func() bool { return s.Streams.Open() == 0 })
	got = append(got, c.all(4008)...)
	for i := 0; i < 100 && len(got) > 0; i++ {
		rest := s.watch("main", fmt.Sprintf("?after_event_id=%d", len(got))).all(1000)
		if len(rest) == 0 {
			break
		}
		got = append(got, rest...)
	}
	for i, f := range got {
		if !strings.HasPrefix(f, fmt.Sprintf(`{"id":%d,`, i+1)) {
			t.Fatalf("event %d is %s", i+1, brief(f))
		}
	}
	if log := s.events("main"); len(log) != len(got) {
		t.Errorf("got %d events of %d", len(got), len(log))
	}
}

func TestSilentSocketIsPinged(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 150 * time.Millisecond})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	for _, path := range []string{"/api/v1/agent/runs/main/ws", "/api/v1/agui/typist/ws", "/api/v1/ws"} {
		began := time.Now() // a busy machine reads pings late, but none before it is sent
		c := s.open(path)
		pinged, pings := make(chan struct{}), 0
		c.SetPingHandler(func(string) error {
			if pings++; pings == 3 {
				close(pinged)
			}
			return nil
		})
		go func() { _ = drain(c) }() // ends when the socket is closed
		<-pinged
		if took := time.Since(began); took < 3*120*time.Millisecond {
			t.Errorf("%s: three pings came within %v", path, took)
		}
		_ = c.Close()
	}
}

// drain reads until the socket ends.
func drain(c *socket) error {
	for {
		if _, _, err := c.ReadMessage(); err != nil {
			return err
		}
	}
}

func TestSocketThatAnswersPingsStays(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 500 * time.Millisecond, WriteTimeout: 4 * time.Second})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	c := s.watch("main", "")
	pings, answer := make(chan struct{}, 100), c.PingHandler()
	c.SetPingHandler(func(text string) error {
		pings <- struct{}{}
		return answer(text)
	})
	got := make(chan error, 1)
	go func() { got <- drain(c) }()
	for range 10 { // more than a timeout: pings are 430 ms apart at least
		select {
		case <-pings:
		case err := <-got:
			t.Fatal(err)
		}
	}
	close(s.Keys)
	c.closed(<-got, 1000)
}

func TestVanishedClientIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{
		"thread": "/api/v1/agent/runs/main/ws", "run": "/api/v1/agui/typist/ws", "many": "/api/v1/ws",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{Ping: 75 * time.Millisecond, WriteTimeout: 300 * time.Millisecond})
			s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
			_, _ = io.Copy(io.Discard, s.Dial(upgrading(path))) // it takes everything until the socket is closed, and says nothing
			s.Eventually("the socket has ended", func() bool { return s.Streams.Open() == 0 })
		})
	}
}

func TestSilentSocketThatReadsNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 15 * time.Millisecond, WriteTimeout: 5 * time.Second, SendBuffer: 1})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	stuck := s.Dial(upgrading("/api/v1/agent/runs/main/ws"))
	_ = stuck.SetReadBuffer(1)
	s.Eventually("the socket is open", func() bool { return s.Streams.Open() == 1 })
	s.Eventually("the socket has ended", func() bool { return s.Streams.Open() == 0 })
}

func TestProtocolErrorsEndTheSocket(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Start(`{"agent": "typist", "threadId": "main", "content": "x"}`)
	for name, frame := range map[string][]byte{
		"unmasked":      {0x81, 1, 'x'},
		"reserved bit":  {0xc1, 0x80, 0, 0, 0, 0},
		"bad opcode":    {0x83, 0x80, 0, 0, 0, 0},
		"long control":  {0x89, 0xfe, 0, 126, 0, 0, 0, 0},
		"continuation":  {0x80, 0x80, 0, 0, 0, 0},
		"bad close":     {0x88, 0x82, 0, 0, 0, 0, 0, 1},
		"garbage":       []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"negative size": {0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0},
	} {
		for _, path := range []string{"/api/v1/agent/runs/main/ws", "/api/v1/agui/typist/ws", "/api/v1/ws"} {
			c := s.open(path)
			if _, err := c.NetConn().Write(frame); err != nil {
				t.Fatal(err)
			}
			err := drain(c)
			if !websocket.IsCloseError(err, 1002, 1006, 1009) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s on %s: got %v", name, path, err)
			}
		}
	}
	s.Eventually("all sockets have ended", func() bool { return s.Streams.Open() == 0 })
}

func TestPongsStandBetweenBatches(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Script("main", strings.TrimSuffix(strings.Repeat(`{"tokens": 1000, "size": 200},`, 10), ","))
	c := s.watch("main", "")
	go func() { // ends when the socket is closed
		for c.WriteControl(websocket.PingMessage, []byte(strings.Repeat("x", 125)), time.Now().Add(patience)) == nil {
		}
	}()
	pongs := 0
	c.SetPongHandler(func(string) error { pongs++; return nil })
	if all := c.all(1000); len(all) < 10_000 || pongs == 0 {
		t.Errorf("got %d events and %d pongs", len(all), pongs)
	}
}

func TestPanicEndsItsSocketAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	other := s.many()
	for _, path := range []string{"/panic/talk", "/panic/batch", "/panic/guarded", "/panic/take"} {
		c := s.open(path)
		c.send("x")
		if err := drain(c); err == nil {
			t.Errorf("%s: the socket goes on", path)
		}
	}
	s.Eventually("all others have ended", func() bool { return s.Streams.Open() == 1 })
	if r := other.do(`{"op": "fly"}`); r.Code != "unknown_op" {
		t.Errorf("got %+v", r)
	}
}
