package sse_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

const stream = "text/event-stream"

func TestPostAnswersWithItsRunAlone(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	s.Await(s.Script("main", `{"say": "before"}`).RunID, "COMPLETED")
	r := s.Do("POST", "/api/v1/agent/runs", transporttest.Scripted("main", `{"say": "mine"}`), "Accept", stream)
	got := r.All()
	if r.StatusCode != http.StatusOK || r.Header.Get("Content-Type") != stream || strings.Contains(got, "before") {
		t.Errorf("got %d %v\n%s", r.StatusCode, r.Header, got)
	}
	if all := frames(got); !strings.Contains(all[0], "RUN_STARTED") || !strings.Contains(all[len(all)-1], "RUN_FINISHED") {
		t.Errorf("got %s", got)
	}
}

// The head goes out with the events that are there already, so that the client is woken once for both.
func TestHeadAndFirstEventsAreOneWrite(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	body := `{"agent": "typist", "content": "x"}`
	conn := s.Dial(fmt.Sprintf("POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Accept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	first := make([]byte, 64<<10)
	n, err := conn.Read(first)
	if got := string(first[:n]); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || !strings.Contains(got, "RUN_STARTED") {
		t.Errorf("got %q, %v", got, err)
	}
	close(s.Keys)
}

func TestAcceptDecidesTheForm(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for accept, want := range map[string]int{
		"":                                    http.StatusAccepted,
		"*/*":                                 http.StatusAccepted,
		"application/json":                    http.StatusAccepted,
		"application/json, text/event-stream": http.StatusAccepted,
		"text/html":                           http.StatusAccepted,
		"text/event-stream":                   http.StatusOK,
		"text/event-stream, */*;q=0.1":        http.StatusOK,
	} {
		r := s.Do("POST", "/api/v1/agent/runs", `{"agent": "echo", "content": "hi"}`, "Accept", accept)
		if r.StatusCode != want {
			t.Errorf("%q: got %d, want %d", accept, r.StatusCode, want)
		}
		r.All()
	}
}

func TestDialectIsTheClients(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for _, c := range []struct{ version, want string }{
		{`"protocolVersion": "1.0", `, `"outcome":{"type":"cancelled"}`},
		{`"protocolVersion": "0.9", `, `"code":"CANCELLED"`},
		{``, `"code":"CANCELLED"`},
	} {
		body := `{` + c.version + `"agent": "typist", "content": "x"}`
		r := s.Do("POST", "/api/v1/agent/runs", body, "Accept", stream)
		_, id, _ := strings.Cut(r.Next(), `"runId":"`)
		id, _, _ = strings.Cut(id, `"`)
		s.Do("POST", "/api/projects/default/agent-runs/"+id+"/cancel", "")
		if got := r.All(); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s", c.version, got)
		}
	}
}

func TestRepeatGetsTheRunFromItsFirstEvent(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	body := transporttest.Scripted("main", words)
	want := s.Do("POST", "/api/v1/agent/runs", body, "Accept", stream, "Idempotency-Key", "k").All()
	s.Await(s.Script("main", `{"say": "more"}`).RunID, "COMPLETED")
	if got := s.Do("POST", "/api/v1/agent/runs", body, "Accept", stream, "Idempotency-Key", "k").All(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	a, b := s.Start(body, "Idempotency-Key", "k"), s.Start(body, "Idempotency-Key", "k")
	if a != b || !strings.HasSuffix(a.EventsURL, "=0") {
		t.Errorf("got %+v and %+v", a, b)
	}
	s.Do("POST", "/api/v1/agent/runs", transporttest.Scripted("main", `{}`), "Idempotency-Key", "k").Refused(http.StatusConflict, "idempotency_mismatch")
	s.Do("POST", "/api/v1/agent/runs", body, "Idempotency-Key", "a b").Refused(http.StatusBadRequest, "invalid_idempotency_key")
}

func TestRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{})
	for body, want := range map[string]struct {
		status int
		code   string
	}{
		`{`:                                   {400, "invalid_json"},
		`[]`:                                  {400, "invalid_request"},
		`{"agent": 7}`:                        {400, "invalid_request"},
		`{"agent": "nobody", "content": "x"}`: {404, "unknown_agent"},
		`{"content": "x"}`:                    {400, "missing_agent"},
		`{"agent": "echo", "content": " "}`:   {400, "invalid_content"},
		`{"agent": "echo", "projectId": "other"}`: {404, "not_found"},
		`{"agent": "echo", "threadId": "a\nb"}`:   {400, "invalid_name"},
	} {
		s.Do("POST", "/api/v1/agent/runs", body).Refused(want.status, want.code)
		s.Do("POST", "/api/v1/agent/runs", body, "Accept", stream).Refused(want.status, want.code)
	}
}
