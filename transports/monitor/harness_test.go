package monitor_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/monitor"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// patience is how long a test waits for what should come at once, before it calls it a hang.
const patience = 20 * time.Second

var (
	local     = runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser}
	neighbour = runtime.Caller{Project: "default", User: "neighbour", Role: runtime.RoleUser}
)

// agent is a worker made of a function.
type agent struct {
	name string
	run  func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error)
}

func (a agent) Info() plugins.Info { return plugins.Info{Name: a.name} }

func (a agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	return a.run(ctx, run)
}

// server is a Baton behind a real listener.
type server struct {
	testing.TB
	rt      *runtime.Runtime
	streams *transports.Streams
	addr    string
	keys    chan string // what the typist writes
	stopped sync.Once
	stop    func()
}

// typist writes what a test hands it, a delta each, until it is told to end.
func (s *server) typist(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	text := run.Text("", "")
	for {
		select {
		case key, ok := <-s.keys:
			if !ok {
				return agui.WorkerOutput{}, text.Close()
			}
			if _, err := io.WriteString(text, key); err != nil {
				return agui.WorkerOutput{}, err
			}
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
}

// lead has the echo agent repeat what it is asked.
func lead(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	if _, err := run.CallAgent(ctx, "echo", run.Input.Query); err != nil {
		return agui.WorkerOutput{}, err
	}
	return agui.WorkerOutput{Answer: "done"}, nil
}

// serve starts a server with the built-in plugins, a typist and a lead. It lets no run go on when it stops.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveFile(tb, cfg, filepath.Join(tb.TempDir(), "baton.db"))
}

func serveFile(tb testing.TB, cfg transports.StreamConfig, path string) *server {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &server{TB: tb, keys: make(chan string)}
	reg := new(plugins.Registry)
	if err := reg.Add(append(builtin.Plugins(), agent{"typist", s.typist}, agent{"lead", lead})...); err != nil {
		tb.Fatal(err)
	}
	db, err := storage.Open(tb.Context(), storage.Config{URL: "sqlite:" + path, Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	if s.rt, err = runtime.New(runtime.Config{Store: db, Registry: reg, Log: log, Grace: time.Second, Drain: time.Millisecond}); err != nil {
		tb.Fatal(err)
	}
	if err := s.rt.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	cfg.Runtime, cfg.Log = s.rt, log
	s.streams = transports.NewStreams(cfg)
	web, err := transports.New(transports.Config{Runtime: s.rt, Streams: s.streams, Log: log},
		monitor.Transport{Runtime: s.rt, Streams: s.streams})
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }() // ends with Shutdown
	s.stop = func() {
		s.stopped.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := errors.Join(s.rt.Shutdown(ctx), web.Shutdown(ctx), <-served, db.Close()); err != nil {
				tb.Error(err)
			}
		})
	}
	tb.Cleanup(s.stop)
	return s
}

// response is an answer whose body is read as it comes.
type response struct {
	*http.Response
	s    *server
	in   *bufio.Reader
	last string // the Last-Event-ID that a browser would have by now
}

// get opens a stream over a connection of its own. Header holds pairs of name and value.
func (s *server) get(path string, header ...string) *response {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = resp.Body.Close() })
	return &response{Response: resp, s: s, in: bufio.NewReader(resp.Body)}
}

// resume opens a stream as a browser does that was cut off.
func (s *server) resume(path string, r *response) *response {
	s.Helper()
	_ = r.Body.Close()
	return s.get(path, "Last-Event-ID", r.last)
}

// block returns the next block of the stream, up to and with its empty line, or what there is at its end.
func (r *response) block() (string, error) {
	var b strings.Builder
	id := r.last
	for {
		line, err := r.in.ReadString('\n')
		b.WriteString(line)
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(v)
		}
		if err == nil && line == "\n" {
			r.last = id
		}
		if err != nil || line == "\n" {
			return b.String(), err
		}
	}
}

// next returns the next block, which must be there.
func (r *response) next() string {
	r.s.Helper()
	b, err := r.block()
	if err != nil {
		r.s.Fatalf("%v after %q", err, b)
	}
	return b
}

// until returns the stream up to a block that holds part.
func (r *response) until(part string) string {
	r.s.Helper()
	for all := ""; ; {
		b := r.next()
		all += b
		if strings.Contains(b, part) {
			return all
		}
	}
}

// rest returns what is left of the stream, which must end as it should.
func (r *response) rest() string {
	r.s.Helper()
	b, err := io.ReadAll(r.in)
	if err != nil {
		r.s.Fatalf("%v after %s", err, b)
	}
	return string(b)
}

// start starts a run of an agent or workflow for a user.
func (s *server) start(who runtime.Caller, agent, workflow, run, content string) {
	s.Helper()
	_, err := s.rt.StartRun(context.Background(), who, runtime.StartRequest{
		Agent: agent, WorkflowID: workflow, RunID: run, ThreadID: "t-" + run,
		Messages: []agui.Message{{Role: agui.RoleUser, Content: content}},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// script starts a run of the scripted agent.
func (s *server) script(who runtime.Caller, run, ops string) {
	s.Helper()
	s.start(who, "scripted", "", run, `{"do": [`+ops+`]}`)
}

// eventually waits for what must become true.
func (s *server) eventually(what string, ok func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			s.Fatalf("never: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
