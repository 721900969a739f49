package llmtest

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/batonrun/baton/plugins/llm"
)

type object = map[string]any

// stream writes an answer. After the client has disconnected or the answer has ended, it writes nothing.
type stream struct {
	ctx    context.Context
	w      http.ResponseWriter
	out    io.Writer // w or its compression
	flush  func() error
	close  func() error // ends the compression; nil without
	lines  bool
	status int
	noEnd  bool
	held   string // line ends that noEnd leaves out at the end
	began  bool
	ended  bool // the answer is over
	cut    bool // the connection is closed
	lost   bool // the client does not read anymore
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
		if h := s.w.Header(); h.Get("Content-Type") == "" {
			h.Set("Content-Type", kind)
		}
		s.w.WriteHeader(s.status)
	}
	if s.noEnd {
		text = s.held + text
		whole := strings.TrimRight(text, "\r\n")
		s.held, text = text[len(whole):], whole
	}
	if _, err := s.out.Write([]byte(text)); err != nil || s.flush() != nil {
		s.cut, s.lost = true, true
	}
}

// open returns the stream of a response to a client.
func open(ctx context.Context, w http.ResponseWriter, p *protocol, script Script) *stream {
	s := &stream{ctx: ctx, w: w, out: w, flush: http.NewResponseController(w).Flush, lines: p.lines, noEnd: script.NoEnd}
	s.status = script.Status
	if s.status == 0 {
		s.status = http.StatusOK
	}
	for name, value := range script.Header {
		w.Header().Set(name, value)
	}
	if script.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		s.out, s.flush = z, func() error { return errors.Join(z.Flush(), http.NewResponseController(w).Flush()) }
		s.close = z.Close
	}
	return s
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
		case step.Raw != "":
			s.write(step.Raw)
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

// whatever returns arguments as JSON, those that are none as a string.
func whatever(arguments string) any {
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	return arguments
}

// modelOf returns the model named in a request's body.
func modelOf(r *Request) string {
	var body struct{ Model string }
	_ = json.Unmarshal(r.Body, &body) // an invalid body names no model
	return body.Model
}

func itemID(kind string, n int) string { return fmt.Sprintf("%s_%024d", kind, n) }
