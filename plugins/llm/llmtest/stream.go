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

// stream writes an answer. After the client has left, or a step has cut the answer, it writes nothing more.
type stream struct {
	ctx   context.Context
	w     http.ResponseWriter
	flush func() error
	lines bool
	began bool
	ended bool // nothing more is said
	cut   bool // and the connection is closed
	lost  bool // the client does not read any more
}

// send writes a value as a line of JSON, or as an event, with its name where there is one.
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

// over tells that nothing more can be said.
func (s *stream) over() bool { return s.ended || s.cut || s.ctx.Err() != nil }

// play takes the steps at their pace. What every protocol does alike it does itself; the rest it gives to tell.
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

// end stops the answer where it is, as a server does that has told a failure.
func (s *stream) end() { s.ended = true }

func fail(w http.ResponseWriter, p *protocol, e *llm.Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds())))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(p.fault(e)) // a client that left needs no answer
}

// or returns s, or other for an empty one.
func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// modelOf returns the model that a request names in its body.
func modelOf(r *Request) string {
	var body struct{ Model string }
	_ = json.Unmarshal(r.Body, &body) // a body that is no JSON names none
	return body.Model
}

func itemID(kind string, n int) string { return fmt.Sprintf("%s_%024d", kind, n) }
