package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/batonrun/baton/plugins/web"
	"github.com/batonrun/baton/runtime/agui"
)

// stream is a response as the SDK can read it: events with messages. The body is read by what it is and not by its declared
// type: events, a JSON text, or neither.
type stream struct {
	tap    *tap
	own    *exchange // of the request that is answered, nil for none
	body   *web.Body
	events *agui.Reader // nil before the first read
	out    []byte       // not yet read by the SDK
	err    error
}

// Read returns the next bytes of an event.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.err = s.next()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// Close closes the body.
func (s *stream) Close() error { return s.body.Close() }

// next reads the next event, or a body that has none.
func (s *stream) next() error {
	if s.events == nil {
		if !s.body.HasEvents() {
			return s.whole(s.body)
		}
		s.events = agui.NewReader(io.MultiReader(s.body, strings.NewReader("\n\n")), maxFrame) // whose last event can lack its end
	}
	return s.event()
}

// whole reads a body that is not a stream of events.
func (s *stream) whole(in io.Reader) error {
	body, err := io.ReadAll(io.LimitReader(in, maxFrame+1))
	switch {
	case err != nil:
		return err
	case len(body) > maxFrame:
		s.refuse(&refusal{said: tooLarge})
		return io.EOF
	}
	if !bytes.HasPrefix(body, []byte("<")) {
		s.put(s.tap.read(body, s.own)...)
	}
	if s.own == nil || !s.unanswered() {
		return io.EOF
	}
	said := s.tap.sentence(body)
	if said != "" {
		said = ": " + said
	}
	if bytes.HasPrefix(body, []byte("<")) {
		said = "with a web page" + said
	} else {
		said = "without a result" + said
	}
	s.refuse(&refusal{status: http.StatusOK, said: said})
	return io.EOF
}

func (s *stream) unanswered() bool {
	result, refused, _ := s.own.outcome()
	return result == nil && refused == nil
}

func (s *stream) refuse(r *refusal) {
	if s.own != nil {
		s.put(s.tap.refuse(s.own, r, nil))
	}
}

// event reads one event.
func (s *stream) event() error {
	var name string
	var data []byte
	for {
		line, err := s.events.Line()
		if errors.Is(err, agui.ErrTooLong) || len(data) > maxFrame {
			s.refuse(&refusal{said: tooLarge})
			return io.EOF
		}
		if err != nil {
			return err
		}
		if len(line) == 0 {
			break
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			name = string(value)
		case "data":
			data = append(append(data, value...), '\n')
		case "id", "retry":
			s.out = fmt.Appendf(s.out, "%s: %s\n", field, value)
		}
	}
	if name == "endpoint" { // of the transport of 2024
		s.out = fmt.Appendf(s.out, "event: endpoint\ndata: %s\n", bytes.TrimSpace(data))
	}
	if len(s.out) > 0 {
		s.out = append(s.out, "\n"...)
	}
	if name != "endpoint" && len(data) > 0 {
		s.put(s.tap.read(data, s.own)...)
	}
	return nil
}

// put adds messages as events.
func (s *stream) put(list ...jsonrpc.Message) {
	for _, m := range list {
		if b, err := jsonrpc.EncodeMessage(m); err == nil {
			s.out = fmt.Appendf(s.out, "data: %s\n\n", b)
		}
	}
}

// inbox is the stream of a server's own messages. It outlives the connections by which they come, because the SDK ends a
// session whose stream ends a few times, and with it its calls. A stream that the server does not offer is empty.
type inbox struct {
	done <-chan struct{} // closed with the session
	open func() (*http.Response, error)
	conn *connection

	now   *stream
	begun time.Time     // when now was opened
	had   bool          // a stream was open before
	pause time.Duration // before the stream is opened, 0 for the first time
}

// longest is the maximum pause before the stream is opened again.
const longest = 5 * time.Minute

// Read returns the next bytes of the stream.
func (i *inbox) Read(p []byte) (int, error) {
	for {
		if i.now == nil {
			if err := i.connect(); err != nil {
				return 0, err
			}
		}
		n, err := i.now.Read(p)
		if n > 0 || err == nil {
			return n, nil
		}
		_ = i.now.Close()
		i.now = nil
		if time.Since(i.begun) > steady {
			i.pause = minPause
		}
	}
}

// connect opens the stream, after a pause and as often as it takes. It waits for the end of the session if the server has none.
func (i *inbox) connect() error {
	for {
		again := i.pause > 0
		select {
		case <-time.After(i.pause):
		case <-i.done:
			return io.EOF
		}
		i.pause = min(max(2*i.pause, minPause), longest)
		res, err := i.open() //nolint:bodyclose // by the stream, or by refusalOf
		if err != nil && i.had {
			i.conn.fail(err)
			break
		}
		if err != nil {
			continue
		}
		if body := web.BodyOf(res, endless); res.StatusCode == http.StatusOK && body.Declared("text/event-stream") {
			i.now, i.begun, i.had = &stream{tap: i.conn.tap, body: body}, time.Now(), true
			if again {
				i.conn.relist() // changes may have been told meanwhile
			}
			return nil
		}
		refused := i.conn.tap.refusalOf(res)
		if i.had && refused.lost(true) {
			i.conn.fail(sdk.ErrSessionMissing)
			break
		}
		if !i.had && refused.status < http.StatusInternalServerError {
			break
		}
		if i.had {
			i.conn.relist()
		}
	}
	<-i.done
	return io.EOF
}

// Close closes the stream.
func (i *inbox) Close() error {
	if i.now == nil {
		return nil
	}
	return i.now.Close()
}
