package agui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

// quick makes the sweep look often, and the grace short.
var quick = transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: time.Second}

// returning has a grace in which a client comes back also to a busy machine.
var returning = transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 10 * time.Second}

// typing starts run a, of the typist.
func (s *server) typing() *response {
	s.Helper()
	r := s.run("typist", "main", "a", "go", "")
	r.Until("STEP_STARTED")
	return r
}

func TestViewerWhoJoinsAfterTheDropKeepsTheRun(t *testing.T) {
	t.Parallel()
	s := serve(t, returning)
	s.typing().Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	viewer := s.connect("")
	s.OutlastGrace()
	s.Keys <- "still here"
	viewer.Until("still here")
	viewer.Drop()
	s.Eventually("the viewer's stream has ended", func() bool { return s.Streams.Open() == 0 })
	s.OutlastGrace()
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

// A reconnected client joins the thread even while it waits for its turn.
func TestViewerWhoWaitsForItsTurnKeepsTheRun(t *testing.T) {
	t.Parallel()
	s := serve(t, returning)
	s.typing().Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
	var ends []func()
	for gone, cancel := context.WithCancel(t.Context()); ; { // with whom a turn is had only if one is free
		cancel()
		end, err := s.Streams.Turn(gone, local)
		if err != nil {
			break
		}
		ends = append(ends, end)
	}
	viewer := make(chan *response, 1)
	go func() { viewer <- s.connect("") }()
	s.OutlastGrace()
	s.Await("a", "RUNNING")
	for _, end := range ends {
		end()
	}
	s.Keys <- "still here"
	(<-viewer).Until("still here")
	close(s.Keys)
	s.Await("a", "COMPLETED")
}

func TestViewerFromBeforeTheDropKeepsNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	owner := s.typing()
	viewer := s.connect("")
	viewer.Until("STEP_STARTED")
	owner.Drop()
	s.Await("a", "CANCELLED")
	if got := viewer.All(); !strings.Contains(got, `"code":"CANCELLED"`) {
		t.Errorf("the viewer saw %s", got)
	}
}

func TestStoppingServerInterruptsViewers(t *testing.T) {
	t.Parallel()
	for _, dialect := range []string{modern, ""} {
		s := serve(t, transports.StreamConfig{})
		s.typing()
		viewer := s.connect(dialect)
		head := viewer.Until("STEP_STARTED")
		s.Stop()
		tail := viewer.All()
		if strings.Contains(tail, "id: ") || !strings.Contains(tail, `"code":"interrupted"`) {
			t.Errorf("the viewer's stream ended with %s", tail)
		}
		folded(t, head+tail)
	}
}

func TestStoppingServerAddsNoErrorToAnError(t *testing.T) {
	t.Parallel()
	s := serveSlots(t, transports.StreamConfig{}, 1)
	s.typing()
	other := s.run("typist", "other", "x", "go", "") // takes the only slot from the thread's next run
	next := s.run("echo", "main", "b", "hello", "")
	viewer := s.connect(modern)
	head := viewer.Until("STEP_STARTED")
	s.Keys <- fail
	head += viewer.Until("RUN_ERROR")
	other.Until("STEP_STARTED")
	s.Stop()
	if tail := viewer.All(); tail != "" {
		t.Errorf("the viewer's stream ended with %s", tail)
	}
	if got := next.All(); !strings.Contains(got, `"code":"interrupted"`) {
		t.Errorf("the queued run's stream ended with %s", got)
	}
	folded(t, head)
}

func TestViewerOfRemovedEventsIsSentToJoinAnew(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{WriteTimeout: time.Hour}) // the viewer takes nothing until all is said
	owner := s.typing()
	viewer := s.connect(modern)
	head := viewer.Until("STEP_STARTED")
	delta := strings.Repeat("x", 32<<10)
	for range 300 { // more than the viewer's connection holds
		s.Keys <- delta
	}
	close(s.Keys)
	owner.Until("RUN_FINISHED")
	s.Await("a", "COMPLETED")
	if err := s.Runtime.Delete(t.Context(), local, "a"); err != nil {
		t.Fatal(err)
	}
	tail := viewer.All()
	if !strings.Contains(tail, `"code":"interrupted"`) || strings.Contains(tail, "RUN_FINISHED") || strings.Contains(tail, "log-reset") {
		t.Errorf("the viewer's stream ended with %s", brief(tail))
	}
	folded(t, head+tail)
}

func TestPreludeFitsAFrame(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	close(s.Keys) // typists end at once
	long := strings.Repeat("x", 3<<20)
	for _, run := range []string{"a", "b", "c"} {
		s.run("typist", "main", run, "say "+run+long, "").Until("RUN_FINISHED")
	}
	biggest := 0
	var last agui.Message
	for block := range strings.SplitSeq(s.connect(modern).All(), "\n\n") {
		biggest = max(biggest, len(block))
		if _, data, ok := strings.Cut(block, "\ndata: "); ok {
			var ev struct{ Messages []agui.Message }
			if json.Unmarshal([]byte(data), &ev) == nil && len(ev.Messages) > 0 {
				last = ev.Messages[len(ev.Messages)-1]
			}
		}
	}
	if biggest > 8_000_000 || biggest < 3<<20 || !strings.HasPrefix(last.Text(), "say c") {
		t.Errorf("the biggest frame has %d bytes, the newest message begins with %.10s", biggest, last.Text())
	}
}

// A disconnected client waits for no turn, whatever the method of the request.
func TestWhoHasLeftWaitsForNoTurn(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"/api/v1/agui/echo/connect": turn("main", "joins", "", modern),
		"/api/copilotkit":           `{"method": "resource/request", "params": {"path": "/threads", "httpMethod": "GET"}}`,
	} {
		s := serve(t, transports.StreamConfig{})
		over := make(chan struct{}, 1)
		s.taken = func() { over <- struct{}{} }
		_, back := s.TakeTurns()
		c := s.Dial(fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", name, s.Addr, len(body), body))
		_ = c.Close()
		select {
		case <-over:
		case <-time.After(transporttest.Patience):
			t.Errorf("%s goes on when its client has left", name)
		}
		back()
	}
}

// A prelude for which there is no room is refused as any other answer.
func TestAPreludeWithoutRoomIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{InFlight: 64 << 10})
	s.run("echo", "main", "a", strings.Repeat("x", 16<<10), "").Until("RUN_FINISHED")
	s.Eventually("room", func() bool { return s.Streams.Budget.Used() == 0 })
	held := s.Streams.Budget.Hold()
	if err := held.Grow(56 << 10); err != nil {
		t.Fatal(err)
	}
	s.connect(modern).Refused(503, "overloaded")
	held.Release()
	s.connect(modern).Until("RUN_FINISHED")
	s.Eventually("nothing is held", func() bool { return s.Streams.Budget.Used() == 0 })
}

// A client must read the prelude of connect at a minimum rate on average.
func TestAPreludeIsTakenInTime(t *testing.T) {
	t.Parallel()
	s := transporttest.Start(t, transporttest.Config{
		Server:  transports.Config{Slack: time.Second, Rate: 4 << 20},
		Streams: transports.StreamConfig{WriteTimeout: 2 * time.Second, SendBuffer: 4 << 10},
	})
	s.Do("POST", "/api/v1/agui/echo", input("main", "a", strings.Repeat("x", 3<<20), modern)).Until("RUN_FINISHED")
	body := turn("main", "joins", "", modern)
	c := s.Dial(fmt.Sprintf("POST /api/v1/agui/echo/connect HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.Addr, len(body), body))
	_ = c.SetReadBuffer(4 << 10)
	got, buf := 0, make([]byte, 4<<10)
	var err error
	for n := 0; err == nil; n, err = c.Read(buf) { // some 200 KiB a second at most
		got += n
		<-time.After(20 * time.Millisecond)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || got > 5<<20 {
		t.Errorf("a client that takes too little has got %d bytes, and then %v", got, err)
	}
}
