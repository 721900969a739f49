package monitor_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m) }

var local = runtime.MustCaller("default", "local", runtime.RoleUser)

// lead is an agent that calls the echo agent with its input.
type lead struct{}

func (lead) Info() plugins.Info { return plugins.Info{Name: "lead"} }

func (lead) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if _, err := run.CallAgent(ctx, "echo", run.Input.Query); err != nil {
		return agui.WorkerOutput{}, err
	}
	return agui.WorkerOutput{Answer: "done"}, nil
}

type server struct{ *transporttest.Server }

// serve starts a server with a lead.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveFile(tb, cfg, "")
}

// serveFile is serve with an existing database, unless path is empty.
func serveFile(tb testing.TB, cfg transports.StreamConfig, path string) *server {
	tb.Helper()
	if path != "" {
		path = "sqlite:" + path
	}
	return start(tb, transporttest.Config{Database: path, Streams: cfg})
}

// serveCluster starts a server of the cluster of a database.
func serveCluster(tb testing.TB, database string) *server {
	tb.Helper()
	return start(tb, transporttest.Config{Database: database})
}

func start(tb testing.TB, cfg transporttest.Config) *server {
	tb.Helper()
	cfg.Runtime, cfg.Plugins = runtime.Config{Limits: runtime.Limits{Grace: time.Second}}, []plugins.Plugin{lead{}}
	return &server{transporttest.Start(tb, cfg)}
}

// response is a response whose body is read as it arrives.
type response = transporttest.Response

func (s *server) get(path string, header ...string) *response {
	s.Helper()
	return s.Do(http.MethodGet, path, "", header...)
}

// resume opens a stream as a browser does that was cut off.
func (s *server) resume(path string, r *response) *response {
	s.Helper()
	_ = r.Body.Close()
	return s.get(path, "Last-Event-ID", r.LastID)
}

// start starts a run of an agent.
func (s *server) start(agent, run, content string) {
	s.Helper()
	_, err := s.Runtime.StartRun(context.Background(), local, runtime.StartRequest{
		Agent: agent, RunID: run, ThreadID: "t-" + run,
		Messages: []agui.Message{{Role: agui.RoleUser, Content: content}},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// script starts a run of the scripted agent.
func (s *server) script(run, ops string) {
	s.Helper()
	s.start("scripted", run, `{"do": [`+ops+`]}`)
}
