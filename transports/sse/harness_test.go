package sse_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

const patience = transporttest.Patience

// server has event streams, and REST to start what they show.
type server struct {
	*transporttest.Server
	rt      *runtime.Runtime
	streams *transports.Streams
	addr    string
	keys    chan string // what the typist writes
	stop    func()
}

// serve starts a server with a typist and a drummer. It lets no run go on when it stops.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveDraining(tb, cfg, time.Millisecond)
}

func serveDraining(tb testing.TB, cfg transports.StreamConfig, drain time.Duration) *server {
	tb.Helper()
	keys := make(chan string)
	s := transporttest.Serve(tb, transporttest.Config{
		Runtime: runtime.Config{Grace: time.Second, Drain: drain, Runs: 5000},
		Streams: cfg,
		Plugins: []plugins.Plugin{transporttest.Typist{Keys: keys}, transporttest.Drummer{}},
		Mount: func(s *transporttest.Server) []transports.Mounter {
			return []transports.Mounter{sse.Transport{Runtime: s.Runtime, Streams: s.Streams}, rest.Transport{Runtime: s.Runtime}}
		},
	})
	return &server{Server: s, rt: s.Runtime, streams: s.Streams, addr: s.Addr, keys: keys, stop: s.Stop}
}

// response is an answer whose body is read as it comes.
type response struct{ *transporttest.Response }

func (r *response) block() (string, error) { return r.Block() }

func (r *response) next() string {
	r.Helper()
	return r.Next()
}

func (r *response) until(part string) string {
	r.Helper()
	return r.Until(part)
}

func (r *response) all() string {
	r.Helper()
	return r.All()
}

func (r *response) refused(status int, code string) {
	r.Helper()
	r.Refused(status, code)
}

func (s *server) do(method, path, body string, header ...string) *response {
	s.Helper()
	return &response{s.Do(method, path, body, header...)}
}

// get watches a thread.
func (s *server) get(thread, query string, header ...string) *response {
	s.Helper()
	return s.do("GET", "/api/v1/agent/runs/"+thread+"/events"+query, "", header...)
}

type started struct{ ThreadID, RunID, ConversationID, Status, EventsURL string }

// start starts a run as JSON.
func (s *server) start(body string, header ...string) started {
	s.Helper()
	r := s.do("POST", "/api/v1/agent/runs", body, header...)
	var a started
	if text := r.all(); r.StatusCode != http.StatusAccepted || json.Unmarshal([]byte(text), &a) != nil {
		s.Fatalf("got %d %s", r.StatusCode, text)
	}
	return a
}

// script starts a run of the scripted agent on a thread.
func (s *server) script(thread, ops string) started {
	s.Helper()
	return s.start(scripted(thread, ops))
}

func scripted(thread, ops string) string {
	content, _ := json.Marshal(`{"do": [` + ops + `]}`)
	return fmt.Sprintf(`{"agent": "scripted", "threadId": %q, "content": %s}`, thread, content)
}

func (s *server) status(run string, want ...runtime.Status) {
	s.Helper()
	s.Await(run, want...)
}

func (s *server) eventually(what string, ok func() bool) {
	s.Helper()
	s.Eventually(what, ok)
}
