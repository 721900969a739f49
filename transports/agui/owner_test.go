package agui_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/lease"
)

func TestRunOfAClientThatLeftBeforeTheAnswerIsCancelled(t *testing.T) {
	s := serve(t, quick)
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.taken = func() {
		_ = conn.(*net.TCPConn).SetLinger(0) // the first write to it fails
		_ = conn.Close()
	}
	body := input("main", "a", "go", "")
	_, err = fmt.Fprintf(conn, "POST /api/v1/agui/typist HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the run is there", func() bool {
		_, err := s.rt.Run(context.Background(), local, "a")
		return err == nil
	})
	s.status("a", runtime.Cancelled)
}

func TestQueuedRunOfAClientThatLeftIsCancelled(t *testing.T) {
	s := serve(t, quick)
	owner := s.typing()
	s.run("echo", "main", "b", "hello", "").drop()
	s.status("b", runtime.Cancelled)
	close(s.keys)
	if got := owner.all(); !strings.Contains(got, "RUN_FINISHED") {
		t.Errorf("the thread's run ended with %s", got)
	}
}

// peer is a connection whose client is there or has left.
type peer bool

func (p peer) Gone() bool { return !bool(p) }

func TestRepeatThatIsFasterOwnsTheRun(t *testing.T) {
	s := serve(t, quick)
	started, err := s.streams.StartRun(t.Context(), local, runtime.StartRequest{Agent: "typist", ThreadID: "main", RunID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	drop := func(h *lease.Held) {
		cur, err := s.rt.ReadRun(t.Context(), started)
		if err != nil {
			t.Fatal(err)
		}
		h.Drop(cur)
	}
	again := started
	again.Replayed = true
	left := s.streams.Hold(peer(true), local, nil, again)
	repeat := s.streams.Hold(peer(true), local, nil, again)
	drop(left)
	first := s.streams.Hold(peer(false), local, nil, started)
	drop(first)
	s.OutlastGrace()
	s.status("a", runtime.Running)
	drop(repeat)
	s.status("a", runtime.Cancelled)
}

func TestRepeatOfADetachedRunOwnsNothing(t *testing.T) {
	s := serve(t, quick)
	started, err := s.streams.StartRun(t.Context(), local, runtime.StartRequest{Agent: "typist", ThreadID: "main", RunID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s.streams.Detach(local, started)
	started.Replayed = true
	cur, err := s.rt.ReadRun(t.Context(), started)
	if err != nil {
		t.Fatal(err)
	}
	h := s.streams.Hold(peer(false), local, nil, started)
	s.do("POST", "/api/v1/agui/echo", `{"threadId": "main", "runId": "b"}`).drop()
	h.Drop(cur)
	s.OutlastGrace()
	s.status("a", runtime.Running)
}

func TestOperatorsRunIsCancelledThoughAnotherHasItsName(t *testing.T) {
	s := serve(t, quick)
	s.typing()
	boss := runtime.Caller{Project: local.Project, User: "boss", Role: runtime.RoleOperator}
	started, err := s.streams.StartRun(t.Context(), boss, runtime.StartRequest{Agent: "typist", ThreadID: "main", RunID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	cur, err := s.rt.ReadRun(t.Context(), started)
	if err != nil {
		t.Fatal(err)
	}
	s.streams.Hold(peer(false), boss, nil, started).Drop(cur)
	s.eventually("the run is cancelled", func() bool {
		boss.Role = runtime.RoleUser
		run, err := s.rt.Run(t.Context(), boss, "a")
		return err == nil && run.Status == runtime.Cancelled
	})
	s.status("a", runtime.Running)
}

func TestStreamThatShowedItsEndIsNotInterrupted(t *testing.T) {
	s := serve(t, transports.StreamConfig{}, mirror{})
	long := strings.Repeat("x", 1_500_000)
	first := s.run("mirror", "main", "a", long, "").all()
	again := s.run("mirror", "main", "a", long, "")
	for again.Line() != "event: RUN_FINISHED\n" { // it is on its way, and larger than what the connection holds
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.stop()
	}()
	s.eventually("nobody is listened to any more", func() bool {
		c, err := net.Dial("tcp", s.addr)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	rest := again.all()
	<-stopped
	if strings.Contains(rest, "interrupted") || !strings.HasSuffix(first, rest) {
		t.Errorf("the stream ended with %s", brief(rest))
	}
}

func TestStreamsOfADeletedThreadEnd(t *testing.T) {
	s := serve(t, transports.StreamConfig{})
	owner := s.run("typist", "main", "a", "go", modern)
	streams := map[*response]string{owner: owner.until("STEP_STARTED")}
	viewer := s.connect(modern)
	streams[viewer] = viewer.until("STEP_STARTED")
	delta := strings.Repeat("x", 32<<10)
	for range 300 { // more than their connections hold
		s.keys <- delta
	}
	if err := s.rt.DeleteThread(t.Context(), local, "main"); err != nil {
		t.Fatal(err)
	}
	for r, head := range streams {
		stream := head + r.all()
		evs := events(t, stream)
		if last := evs[len(evs)-1].Type(); last != agui.TypeRunError && last != agui.TypeRunFinished {
			t.Errorf("the stream ended with %s", brief(stream))
		}
		folded(t, stream)
	}
}

func TestRepeatOfAnAnswerShowsWhatFollowedIt(t *testing.T) {
	s := serve(t, transports.StreamConfig{})
	const pick = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	ask := input("main", "a", script(`{"tool": "pick", "args": {}}, {"say": "picked"}`), pick)
	post := func(body string) string { return s.do("POST", "/api/v1/agui/scripted", body).all() }
	first := post(ask)
	answer := turn("main", "b", `{"id": "r", "role": "tool", "toolCallId": "`+calls.FindStringSubmatch(first)[1]+`", "content": "red"}`, pick)
	second := post(answer)
	if got := post(answer); got != second || !strings.Contains(got, "picked") {
		t.Errorf("got %s, want %s", got, second)
	}
	if got := post(ask); got != first {
		t.Errorf("got %s, want %s", got, first)
	}
}

func TestAnswerIsTakenOnce(t *testing.T) {
	s := serve(t, transports.StreamConfig{})
	const pick = `, "tools": [{"name": "pick", "description": "Pick a color", "parameters": {}}]`
	first := s.run("scripted", "main", "a", script(`{"tool": "pick", "args": {}}, {"say": "picked"}`), pick).all()
	result := func(run string) string {
		return `{"id": "r-` + run + `", "role": "tool", "toolCallId": "` + calls.FindStringSubmatch(first)[1] + `", "content": "` + run + `"}`
	}
	answers := make(chan *response)
	for _, run := range []string{"b", "c", "d", "e"} {
		go func() { answers <- s.do("POST", "/api/v1/agui/scripted", turn("main", run, result(run), pick)) }()
	}
	taken := 0
	for range 4 {
		r := <-answers
		if r.StatusCode != http.StatusOK {
			r.refused(http.StatusConflict, "already_answered")
			continue
		}
		taken++
		if got := answer(t, r.all()); got != "picked" {
			t.Errorf("the run went on with %s", got)
		}
	}
	if taken != 1 {
		t.Errorf("%d answers were taken", taken)
	}
	history := result("b") + "," + result("c") + `, {"id": "next", "role": "user", "content": "hello"}`
	if got := answer(t, s.do("POST", "/api/v1/agui/echo", turn("main", "f", history, "")).all()); got != "hello" {
		t.Errorf("a client whose answer came late is answered %s", got)
	}
}
