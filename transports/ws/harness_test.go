package ws_test

import (
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
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/rest"
	"github.com/batonrun/baton/transports/sse"
	"github.com/batonrun/baton/transports/ws"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// patience is how long a test waits for what should come at once, before it calls it a hang.
const patience = 20 * time.Second

var local = runtime.Caller{Project: "default", User: "local", Role: runtime.RoleUser}

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

// server is a Baton behind a real listener.
type server struct {
	testing.TB
	rt      *runtime.Runtime
	streams *transports.Streams
	web     *transports.Server
	addr    string
	keys    chan string
	stopped sync.Once
	stop    func()
}

// serve starts a server with the built-in plugins, a typist and a drummer. It lets no run go on when it stops.
func serve(tb testing.TB, cfg transports.StreamConfig) *server {
	tb.Helper()
	return serveDraining(tb, cfg, time.Millisecond)
}

func serveDraining(tb testing.TB, cfg transports.StreamConfig, drain time.Duration) *server {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	s := &server{TB: tb, keys: make(chan string)}
	reg := new(plugins.Registry)
	if err := reg.Add(append(builtin.Plugins(), typist{s.keys}, drummer{})...); err != nil {
		tb.Fatal(err)
	}
	db, err := storage.Open(tb.Context(), storage.Config{URL: "sqlite:" + filepath.Join(tb.TempDir(), "baton.db"), Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	if s.rt, err = runtime.New(runtime.Config{Store: db, Registry: reg, Log: log, Grace: time.Second, Drain: drain, Runs: 5000}); err != nil {
		tb.Fatal(err)
	}
	if err := s.rt.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	cfg.Runtime, cfg.Log = s.rt, log
	s.streams = transports.NewStreams(cfg)
	s.web, err = transports.New(transports.Config{Runtime: s.rt, Streams: s.streams, Log: log},
		sse.Transport{Runtime: s.rt, Streams: s.streams}, rest.Transport{Runtime: s.rt},
		ws.Transport{Runtime: s.rt, Streams: s.streams, Log: log}, ws.Panicking{Transport: ws.Transport{Streams: s.streams, Log: log}})
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

// socket is a client's end of a WebSocket.
type socket struct {
	*websocket.Conn
	s *server
}

// open opens a socket. Header holds pairs of name and value.
func (s *server) open(path string, header ...string) *socket {
	s.Helper()
	c, status := s.dial(path, nil, header...)
	if c == nil {
		s.Fatalf("got the status %d", status)
	}
	return c
}

// dial asks for a socket, over a connection that is adjusted first, and returns nil and the answer's status when
// it is refused.
func (s *server) dial(path string, adjust func(*net.TCPConn), header ...string) (*socket, int) {
	s.Helper()
	d := websocket.Dialer{HandshakeTimeout: patience, NetDial: func(network, addr string) (net.Conn, error) {
		c, err := net.Dial(network, addr)
		if err == nil && adjust != nil {
			adjust(c.(*net.TCPConn))
		}
		return c, err
	}}
	h := make(http.Header)
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, resp, err := d.Dial("ws://"+s.addr+path, h)
	if resp == nil {
		s.Fatal(err)
	}
	_ = resp.Body.Close()
	if err != nil {
		return nil, resp.StatusCode
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(patience))
	return &socket{c, s}, resp.StatusCode
}

const protocolHeader = "Sec-WebSocket-Protocol"

// watch opens the socket of a thread.
func (s *server) watch(thread, query string, header ...string) *socket {
	s.Helper()
	return s.open("/api/v1/agent/runs/"+thread+"/ws"+query, header...)
}

// next returns the next frame, which must be there.
func (c *socket) next() string {
	c.s.Helper()
	kind, msg, err := c.ReadMessage()
	if err != nil || kind != websocket.TextMessage {
		c.s.Fatalf("got %v, a frame of kind %d", err, kind)
	}
	return string(msg)
}

// until returns the frames up to one that holds part, and fails when the socket is closed.
func (c *socket) until(part string) []string {
	c.s.Helper()
	for all := []string(nil); ; {
		all = append(all, c.next())
		if strings.Contains(all[len(all)-1], part) {
			return all
		}
	}
}

// all returns the frames up to the close, which must have the code.
func (c *socket) all(code int) []string {
	c.s.Helper()
	for all := []string(nil); ; {
		_, msg, err := c.ReadMessage()
		if err != nil {
			c.closed(err, code)
			return all
		}
		all = append(all, string(msg))
	}
}

// closed checks what ended the socket, and returns the reason that was given.
func (c *socket) closed(err error, code int) string {
	c.s.Helper()
	var end *websocket.CloseError
	if !errors.As(err, &end) || end.Code != code {
		c.s.Fatalf("the socket ended with %v, want the code %d", err, code)
	}
	return end.Text
}

// send sends a text frame.
func (c *socket) send(msg string) {
	c.s.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(msg)); err != nil {
		c.s.Fatal(err)
	}
}

// request sends a request over HTTP and returns the answer's status and body.
func (s *server) request(method, path, body string, header ...string) (int, string) {
	s.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// events is what the thread's stream of server-sent events shows: of each event its id and its JSON.
func (s *server) events(thread string) (all []numbered) {
	s.Helper()
	_, body := s.request("GET", "/api/v1/agent/runs/"+thread+"/events", "")
	for block := range strings.SplitSeq(body, "\n\n") {
		if _, data, ok := strings.Cut(block, "\ndata: "); ok {
			rest, _ := strings.CutPrefix(block, "id: ")
			id, _, _ := strings.Cut(rest, "\n")
			n, _ := strconv.ParseInt(id, 10, 64)
			all = append(all, numbered{n, json.RawMessage(data)})
		}
	}
	return all
}

// numbered is an event as frames show it.
type numbered struct {
	ID    int64           `json:"id"`
	Event json.RawMessage `json:"event"`
}

// frame is the frame that shows the event.
func (n numbered) frame() string {
	if n.ID == 0 {
		return fmt.Sprintf(`{"event":%s}`, n.Event)
	}
	return fmt.Sprintf(`{"id":%d,"event":%s}`, n.ID, n.Event)
}

func frames(all []numbered) (list []string) {
	for _, n := range all {
		list = append(list, n.frame())
	}
	return list
}

type started struct{ ThreadID, RunID, ConversationID, Status, EventsURL string }

// start starts a run.
func (s *server) start(body string) started {
	s.Helper()
	var a started
	if status, text := s.request("POST", "/api/v1/agent/runs", body); status != http.StatusAccepted || json.Unmarshal([]byte(text), &a) != nil {
		s.Fatalf("got %d %s", status, text)
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
