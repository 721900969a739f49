package sse_test

import (
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

const patience = transporttest.Patience

type server struct{ *transporttest.Server }

// serve starts a server with a drummer.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveDraining(tb, cfg, 0)
}

func serveDraining(tb testing.TB, cfg transports.StreamConfig, drain time.Duration) *server {
	tb.Helper()
	return &server{transporttest.Start(tb, transporttest.Config{
		Runtime: runtime.Config{Limits: runtime.Limits{Grace: time.Second, Drain: drain, Runs: 5000}},
		Streams: cfg,
		Plugins: []plugins.Plugin{transporttest.Drummer{}},
	})}
}

// response is a response whose body is read as it arrives.
type response = transporttest.Response

// get watches a thread.
func (s *server) get(thread, query string, header ...string) *response {
	s.Helper()
	return s.Do("GET", "/api/v1/agent/runs/"+thread+"/events"+query, "", header...)
}
