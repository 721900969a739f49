package sse_test

import (
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
	keys chan string // what the typist writes
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
	return &server{s, keys}
}

// response is an answer whose body is read as it comes.
type response = transporttest.Response

// get watches a thread.
func (s *server) get(thread, query string, header ...string) *response {
	s.Helper()
	return s.Do("GET", "/api/v1/agent/runs/"+thread+"/events"+query, "", header...)
}
