package sse_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

const ask = transporttest.Ask

// leave drops a run's stream, and waits until the server knows.
func (s *server) leave(r *response) {
	s.Helper()
	r.Drop()
	s.Eventually("the stream has ended", func() bool { return s.Streams.Open() == 0 })
}

// another starts a run of the echo agent on the thread.
func (s *server) another() {
	s.Start(`{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b"}`)
}

// answer is how run a's question is answered.
func (s *server) answer() []agui.ResumeEntry {
	s.Helper()
	asks, err := s.Runtime.Runs.Interrupts(s.Context(), s.Caller, "a")
	if err != nil || len(asks) != 1 {
		s.Fatalf("%d questions, %v", len(asks), err)
	}
	return []agui.ResumeEntry{{InterruptID: asks[0].ID, Status: "resolved", Payload: []byte("true")}}
}

func TestRunThatComesToWaitUnseenIsCancelled(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 2 * time.Second})
	s.leave(s.typing(""))
	s.Keys <- ask
	s.Await("a", "WAITING")
	s.Await("a", "CANCELLED")
}

func TestQuestionToAClientThatHasJustLeftIsUnseen(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: time.Hour, Grace: time.Second}) // nobody looks but who asks
	body := `{"agent": "typist", "threadId": "main", "content": "x", "runId": "a"}`
	c := s.Dial(fmt.Sprintf("POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", stream, len(body), body))
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "STEP_STARTED") {
			break
		}
	}
	_ = c.Close()
	s.Keys <- ask
	s.Await("a", "CANCELLED")
}

func TestNextMessageGoesBeforeAnUnseenQuestion(t *testing.T) {
	t.Parallel()
	s := serve(t, long)
	s.leave(s.typing(""))
	s.Keys <- ask
	s.Await("a", "WAITING")
	s.another()
	s.Await("a", "CANCELLED")
	s.Await("b", "COMPLETED")
}

func TestQuestionThatWasSeenWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, quick)
	r := s.typing("")
	s.Keys <- ask
	r.Until("RUN_FINISHED")
	s.leave(r)
	s.OutlastGrace()
	s.Await("a", "WAITING")
	r = s.Do("POST", "/api/v1/agent/runs", `{"agent": "echo", "threadId": "main", "content": "hi", "runId": "b"}`)
	r.Refused(409, "thread_waiting")
}

func TestRunAnsweredInTheGraceGoesOn(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(s *server){
		"by its id": func(s *server) {
			if _, err := s.Runtime.Resume(s.Context(), s.Caller, "a", s.answer()); err != nil {
				s.Fatal(err)
			}
		},
		"by a request": func(s *server) {
			s.Start(fmt.Sprintf(`{"threadId": "main", "runId": "c", "resume": [{"interruptId": %q, "status": "resolved", "payload": true}]}`, s.answer()[0].InterruptID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 2 * time.Second})
			s.leave(s.typing(""))
			s.Keys <- ask
			s.Await("a", "WAITING")
			answer(s)
			s.another()
			s.OutlastGrace()
			close(s.Keys)
			s.Await("a", "COMPLETED")
			s.Await("b", "COMPLETED")
		})
	}
}

func TestRunThatWaitsAgainInTheGraceWaits(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: 300 * time.Millisecond, Grace: 2 * time.Second})
	s.leave(s.typing(""))
	s.Keys <- ask
	s.Await("a", "WAITING")
	if _, err := s.Runtime.Resume(t.Context(), s.Caller, "a", s.answer()); err != nil {
		t.Fatal(err)
	}
	s.Keys <- ask // answered already
	s.Keys <- ask
	s.Await("a", "WAITING")
	s.OutlastGrace()
	s.Await("a", "WAITING")
}
