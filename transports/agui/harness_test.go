package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	door "github.com/batonrun/baton/transports/agui"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// patience is how long a test waits for what should come at once, before it calls it a hang.
const patience = 20 * time.Second

// page is a web origin that the servers of tests admit.
const page = "https://app.example.com"

var local = runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser}

// fail is what a typist is handed to fail.
const fail = "fail"

// typist is an agent that writes what a test hands it, a delta each, until it is told to end.
type typist struct {
	keys chan string
}

func (typist) Info() plugins.Info { return plugins.Info{Name: "typist"} }

func (a typist) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	text := run.Text("", "")
	for {
		select {
		case key, ok := <-a.keys:
			switch {
			case !ok:
				return agui.WorkerOutput{}, text.Close()
			case key == fail:
				return agui.WorkerOutput{}, errors.New("told to")
			}
			if _, err := io.WriteString(text, key); err != nil {
				return agui.WorkerOutput{}, err
			}
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
	}
}

// server is a Baton behind a real listener.
type server struct {
	testing.TB
	rt      *runtime.Runtime
	streams *transports.Streams
	web     *transports.Server
	addr    string
	keys    chan string
	taken   func() // called when a handler has returned and its answer has not begun, unless nil
	stopped sync.Once
	stop    func()
}

// serve starts a server with the built-in plugins, a typist and more. It lets no run go on when it stops.
func serve(tb testing.TB, cfg transports.StreamConfig, more ...plugins.Plugin) *server {
	tb.Helper()
	return serveSlots(tb, cfg, 0, more...)
}

// serveSlots is serve with a limit to the runs at once.
func serveSlots(tb testing.TB, cfg transports.StreamConfig, slots int, more ...plugins.Plugin) *server {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &server{TB: tb, keys: make(chan string)}
	reg := new(plugins.Registry)
	if err := reg.Add(append(append(builtin.Plugins(), typist{s.keys}), more...)...); err != nil {
		tb.Fatal(err)
	}
	db, err := storage.Open(tb.Context(), storage.Config{URL: "sqlite:" + filepath.Join(tb.TempDir(), "baton.db"), Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	if s.rt, err = runtime.New(runtime.Config{Store: db, Registry: reg, Log: log, Grace: time.Second, Drain: time.Millisecond, Runs: slots}); err != nil {
		tb.Fatal(err)
	}
	if err := s.rt.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	cfg.Runtime, cfg.Log = s.rt, log
	s.streams = transports.NewStreams(cfg)
	s.web, err = transports.New(transports.Config{Runtime: s.rt, Streams: s.streams, Log: log, Origins: []string{page}},
		hook{s}, door.Transport{Runtime: s.rt, Streams: s.streams}, sse.Transport{Runtime: s.rt, Streams: s.streams}, rest.Transport{Runtime: s.rt})
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.web.Serve(ln) }() // ends with Shutdown
	s.stop = func() {
		s.stopped.Do(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := errors.Join(s.rt.Shutdown(ctx), s.web.Shutdown(ctx), <-served, db.Close()); err != nil {
				tb.Error(err)
			}
		})
	}
	tb.Cleanup(s.stop)
	return s
}

// hook calls taken.
type hook struct{ s *server }

func (h hook) Mount(r fiber.Router) {
	r.Use(func(c *fiber.Ctx) error {
		err := c.Next()
		if h.s.taken != nil {
			h.s.taken()
		}
		return err
	})
}

// response is an answer whose body is read as it comes.
type response struct {
	*http.Response
	s  *server
	in *bufio.Reader
}

// do sends a request over a connection of its own. Header holds pairs of name and value.
func (s *server) do(method, path, body string, header ...string) *response {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = resp.Body.Close() })
	return &response{resp, s, bufio.NewReader(resp.Body)}
}

// run asks an agent for a run and returns its stream. More are members of the request.
func (s *server) run(agent, thread, run, content, more string, header ...string) *response {
	s.Helper()
	return s.do("POST", "/api/v1/agui/"+agent, input(thread, run, content, more), header...)
}

// input is what HttpAgent sends for a thread with one message.
func input(thread, run, content, more string) string {
	text, _ := json.Marshal(content)
	return turn(thread, run, fmt.Sprintf(`{"id": "of-%s", "role": "user", "content": %s}`, run, text), more)
}

// turn is what HttpAgent sends for a thread with those messages.
func turn(thread, run, messages, more string) string {
	if !strings.Contains(more, `"tools"`) {
		more = `, "tools": []` + more
	}
	return fmt.Sprintf(`{"threadId": %q, "runId": %q, "state": {}, "messages": [%s], "context": [], "forwardedProps": {}%s}`,
		thread, run, messages, more)
}

// connect joins the thread main.
func (s *server) connect(more string) *response {
	s.Helper()
	return s.do("POST", "/api/v1/agui/echo/connect", turn("main", "joins", "", more))
}

// modern are the members with which a client says that it speaks AG-UI 1.0.
const modern = `, "protocolVersion": "1.0"`

// block returns the next block of the stream, up to and with its empty line, or what there is at its end.
func (r *response) block() (string, error) {
	var b strings.Builder
	for {
		line, err := r.in.ReadString('\n')
		b.WriteString(line)
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
		r.s.Fatalf("%v after %s", err, brief(b))
	}
	return b
}

// brief is a stream's end, for messages.
func brief(s string) string {
	if len(s) > 2000 {
		return "…" + s[len(s)-2000:]
	}
	return s
}

// until returns the stream up to a block that holds part, and fails at its end.
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

// all returns the rest of the body, which must end as it should.
func (r *response) all() string {
	r.s.Helper()
	b, err := io.ReadAll(r.in)
	if err != nil {
		r.s.Fatalf("%v after %s", err, brief(string(b)))
	}
	return string(b)
}

// refused checks an error answer.
func (r *response) refused(status int, code string) {
	r.s.Helper()
	var p transports.Problem
	body := r.all()
	if err := json.Unmarshal([]byte(body), &p); r.StatusCode != status || err != nil || p.Code != code || p.Detail == "" {
		r.s.Errorf("got %d %s, want %d with the code %s", r.StatusCode, body, status, code)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		r.s.Errorf("got the Content-Type %q", got)
	}
}

// script is a message for the agent scripted.
func script(ops string) string { return `{"do": [` + ops + `]}` }

// status waits until the run has one of the statuses.
func (s *server) status(run string, want ...runtime.Status) {
	s.Helper()
	s.eventually(fmt.Sprintf("run %s is %v", run, want), func() bool {
		r, err := s.rt.Run(context.Background(), local, run)
		if err != nil {
			s.Fatal(err)
		}
		return slices.Contains(want, r.Status)
	})
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
