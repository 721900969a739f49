package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

// server has a client that keeps its connections.
type server struct {
	*transporttest.Server
	http *http.Client
}

// serve starts a server with more plugins.
func serve(t *testing.T, plugs ...plugins.Plugin) *server {
	t.Helper()
	s := &server{
		transporttest.Start(t, transporttest.Config{Plugins: plugs}),
		&http.Client{Transport: &http.Transport{MaxConnsPerHost: 100}, Timeout: transporttest.Patience},
	}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// answered is a response that was read.
type answered struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   string
}

// do makes a request; body may be a string or a value to encode, header pairs of name and value.
func (s *server) do(method, path string, body any, header ...string) answered {
	s.Helper()
	a, err := s.try(method, path, body, header...)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

func (s *server) try(method, path string, body any, header ...string) (answered, error) {
	var sent io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		sent = strings.NewReader(body)
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			return answered{}, err
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, sent)
	if err != nil {
		return answered{}, err
	}
	if sent != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answered{s.TB, resp.StatusCode, resp.Header, string(raw)}, err
}

// as decodes an answer's body after checking its status.
func as[T any](a answered, status int) (v T) {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		a.t.Fatalf("%v in %s", err, a.Body)
	}
	return v
}

// refused checks an error answer.
func (a answered) refused(status int, code, detail string) {
	a.t.Helper()
	e := as[struct{ Detail, Code string }](a, status)
	if e.Code != code || e.Detail != detail {
		a.t.Errorf("got %s, want code %q and detail %q", a.Body, code, detail)
	}
}

// run has the fields of a run that the tests check.
type run struct {
	ID, ThreadID, ConversationID, Status, InputQuery, WorkflowID string
	OutputSummary, StartedAt, FinishedAt, EventsURL              *string
	Generation                                                   int
	Interrupts                                                   []agui.Interrupt
	RunID                                                        string // of a 202
}

const runs = "/api/projects/" + project + "/agent-runs"

// start starts a run and returns its id.
func (s *server) start(body map[string]any) run {
	s.Helper()
	return as[run](s.do("POST", runs, body), http.StatusAccepted)
}

// script starts a run of the scripted agent on a thread of its own.
func (s *server) script(ops string) string {
	s.Helper()
	return s.start(map[string]any{"agent": "scripted", "content": `{"do": [` + ops + `]}`}).RunID
}

func (s *server) get(id string) run {
	s.Helper()
	return as[run](s.do("GET", runs+"/"+url.PathEscape(id), nil), http.StatusOK)
}

// await waits until the run has the status.
func (s *server) await(id, status string) run {
	s.Helper()
	deadline := time.Now().Add(transporttest.Patience)
	for {
		r := s.get(id)
		if r.Status == status {
			return r
		}
		if time.Now().After(deadline) || r.Status == "FAILED" || r.Status == "CANCELLED" { // which no run leaves by itself
			s.Fatalf("run is %s, not %s", r.Status, status)
		}
		<-time.After(2 * time.Millisecond)
	}
}

var bob = runtime.MustCaller(project, "bob", runtime.RoleUser)

// bobs starts a run of another user.
func (s *server) bobs(content string) runtime.Started {
	s.Helper()
	started, err := s.Runtime.StartRun(s.Context(), bob, runtime.StartRequest{
		Agent: "scripted", ThreadID: "main", RunID: "bobs", Messages: []agui.Message{{Role: agui.RoleUser, Content: content}},
	})
	if err != nil {
		s.Fatal(err)
	}
	return started
}

func sprint(format string, args ...any) string { return fmt.Sprintf(format, args...) }
