package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/batonrun/baton/plugins/llm"
)

type object = map[string]any

// stream writes an answer. After the client has disconnected or the answer has ended, it writes nothing.
type stream struct {
	ctx   context.Context
	w     http.ResponseWriter
	flush func() error
	lines bool
	began bool
	ended bool // the answer is over
	cut   bool // the connection is closed
	lost  bool // the client does not read anymore
}

// send writes a value as a line of JSON, or as an event with an optional name.
func (s *stream) send(event string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	switch {
	case s.lines:
		s.write(string(data) + "\n")
	case event != "":
		s.write("event: " + event + "\ndata: " + string(data) + "\n\n")
	default:
		s.write("data: " + string(data) + "\n\n")
	}
}

func (s *stream) write(text string) {
	if s.over() {
		return
	}
	if !s.began {
		s.began = true
		kind := "text/event-stream"
		if s.lines {
			kind = "application/x-ndjson"
		}
		s.w.Header().Set("Content-Type", kind)
	}
	if _, err := s.w.Write([]byte(text)); err != nil || s.flush() != nil {
		s.cut, s.lost = true, true
	}
}

// over reports whether nothing more can be sent.
func (s *stream) over() bool { return s.ended || s.cut || s.ctx.Err() != nil }

// play executes the steps at their pace. It handles the steps common to all protocols and passes the others to tell.
func (s *stream) play(script Script, steps []Step, tell func(Step)) {
	due := time.Now()
	for _, step := range steps {
		if script.Pace > 0 {
			due = due.Add(script.Pace)
			s.wait(time.After(time.Until(due)))
		}
		switch {
		case s.over():
			return
		case step.Cut:
			s.cut = true
		case step.Stall != nil:
			s.hold(step.Stall)
			due = time.Now()
		default:
			tell(step)
		}
	}
}

func (s *stream) wait(c <-chan time.Time) {
	select {
	case <-c:
	case <-s.ctx.Done():
	}
}

func (s *stream) hold(until <-chan struct{}) {
	select {
	case <-until:
	case <-s.ctx.Done():
	}
}

// end ends the answer, as a server does after reporting a failure.
func (s *stream) end() { s.ended = true }

func fail(w http.ResponseWriter, p *protocol, e *llm.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(p.fault(e)) // ignores a disconnected client
}

// or returns s, or other if s is empty.
func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// modelOf returns the model named in a request's body.
func modelOf(r *Request) string {
	var body struct{ Model string }
	_ = json.Unmarshal(r.Body, &body) // an invalid body names no model
	return body.Model
}

func itemID(kind string, n int) string { return fmt.Sprintf("%s_%024d", kind, n) }
