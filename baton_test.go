package baton_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"go.uber.org/goleak"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/transports"
)

// temp is a directory for Examples, which have no t.TempDir.
var temp string

func TestMain(m *testing.M) {
	if seed, err := strconv.ParseUint(os.Getenv("BATON_STRANGER"), 10, 64); err == nil {
		playStranger(seed)
		return
	}
	code := 1
	defer func() { os.Exit(code) }()
	var err error
	if temp, err = os.MkdirTemp("", "baton-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(temp)
	code = m.Run()
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
	); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
}

// patience is a timeout that only a hang reaches, on any machine.
const patience = 10 * time.Minute

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// open starts a Baton. Unless cfg.Listen is set, the test serves it.
func open(tb testing.TB, cfg baton.Config) *baton.Server {
	tb.Helper()
	if cfg.Database == "" {
		cfg.Database = "sqlite:" + sqlitetest.New(tb)
	}
	if cfg.Plugins == nil {
		cfg.Plugins = builtin.Plugins()
	}
	cfg.Log = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg.Timeouts.Tool = cmp.Or(cfg.Timeouts.Tool, time.Hour) // timeouts must not hide a hang
	s, err := baton.New(baton.Adjust(cfg, func(c *transports.Config) {
		c.WriteTimeout, c.IdleTimeout = cmp.Or(c.WriteTimeout, time.Hour), cmp.Or(c.IdleTimeout, time.Hour)
	}))
	if err == nil {
		err = s.Start(tb.Context())
	}
	must(tb, err)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// doors are the ways to serve Baton. Each returns the URL.
var doors = map[string]func(testing.TB, *baton.Server) string{
	"net/http": func(tb testing.TB, s *baton.Server) string {
		tb.Helper()
		mux := http.NewServeMux()
		mux.Handle("/api/", s.Handler())
		mux.Handle("/readyz", s.Handler())
		srv := httptest.NewUnstartedServer(mux)
		srv.Config.WriteTimeout = 200 * time.Millisecond // must not apply to streams
		srv.Start()
		tb.Cleanup(srv.Close)
		tb.Cleanup(func() { _ = s.Close() }) // before the HTTP server
		return srv.URL
	},
	"HTTP/2": func(tb testing.TB, s *baton.Server) string {
		tb.Helper()
		srv := httptest.NewUnstartedServer(s.Handler())
		srv.EnableHTTP2 = true
		srv.StartTLS()
		clients[srv.URL] = srv.Client()
		tb.Cleanup(srv.Close)
		tb.Cleanup(func() { _ = s.Close() })
		return srv.URL
	},
	"fiber": func(tb testing.TB, s *baton.Server) string {
		tb.Helper()
		app := fiber.New(fiber.Config{DisableStartupMessage: true})
		app.Use("/api", s.Fiber())
		app.Use("/readyz", s.Fiber())
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(tb, err)
		served := make(chan error, 1)
		go func() { served <- app.Listener(ln) }() // ends with Shutdown
		tb.Cleanup(func() {
			if err := errors.Join(s.Close(), app.Shutdown(), <-served); err != nil {
				tb.Error(err)
			}
		})
		return "http://" + ln.Addr().String()
	},
}

// clients are the clients for doors that http.DefaultClient does not reach.
var clients = map[string]*http.Client{}

func through(t *testing.T, test func(t *testing.T, door string)) {
	for door := range doors {
		t.Run(door, func(t *testing.T) { test(t, door) })
	}
}

// response is an answer whose body closes with the test.
type response struct{ *http.Response }

// send makes a request. header has pairs of name and value.
func send(tb testing.TB, method, url, body string, header ...string) response {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, strings.NewReader(body))
	must(tb, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	client := http.DefaultClient
	for base, own := range clients {
		if strings.HasPrefix(url, base) {
			client = own
		}
	}
	res, err := client.Do(req)
	must(tb, err)
	tb.Cleanup(func() { _ = res.Body.Close() })
	return response{res}
}

// answer reads a whole answer.
func answer(tb testing.TB, res response) string {
	tb.Helper()
	b, err := io.ReadAll(res.Body)
	must(tb, err)
	return string(b)
}

// until reads a stream up to the line that contains text.
func until(tb testing.TB, r *bufio.Scanner, text string) {
	tb.Helper()
	for r.Scan() {
		if strings.Contains(r.Text(), text) {
			return
		}
	}
	tb.Fatalf("the stream has ended without %q: %v", text, r.Err())
}

const script = `{"agent":"scripted","threadId":"main","content":"{\"do\":[{\"say\":\"first\"},{\"tool\":\"sleep\",\"args\":{\"ms\":600}},{\"say\":\"last\"}]}"}`

// TestDoors_StreamLive reads the first word while the agent is still running.
func TestDoors_StreamLive(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		s := open(t, baton.Config{})
		url := doors[door](t, s)
		res := send(t, "POST", url+"/api/v1/agent/runs", script, "Accept", "text/event-stream")
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(res.Status, res.Header)
		}
		lines := bufio.NewScanner(res.Body)
		until(t, lines, `"delta":"first"`)
		list, err := s.Runtime().Runs.List(t.Context(), runtime.MustCaller("default", "local", runtime.RoleUser), runtime.RunFilter{Limit: 1})
		if err != nil || len(list.Rows) != 1 || list.Rows[0].Status != runtime.Running {
			t.Errorf("while the first word is read the run is %+v, %v", list, err)
		}
		until(t, lines, `"delta":"last"`)
		until(t, lines, "event: RUN_FINISHED")
		for lines.Scan() {
		}
		if err := lines.Err(); err != nil {
			t.Errorf("the stream did not end properly: %v", err)
		}

		log := send(t, "GET", url+"/api/v1/agent/runs/main/events", "", "Last-Event-ID", "3")
		if got := answer(t, log); !strings.Contains(got, "\nid: 4\nevent: ") || strings.Contains(got, "id: 2\n") {
			t.Errorf("the log after 3 begins with %.60q", got)
		}
	})
}

// A run is cancelled when the client drops its stream.
func TestRun_EndsWhenClientDisconnects(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		s := open(t, baton.Config{
			Tuning: baton.Tuning{Timeouts: baton.Timeouts{OnDisconnectGrace: 50 * time.Millisecond, Ping: time.Hour}}, // a ping would notice, too
		})
		url := doors[door](t, s)
		long := strings.Replace(script, "600", "3600000", 1)
		res := send(t, "POST", url+"/api/v1/agent/runs", long, "Accept", "text/event-stream")
		lines := bufio.NewScanner(res.Body)
		until(t, lines, "TOOL_CALL_END")
		_ = res.Body.Close()
		await(t, s, runtime.Cancelled)
	})
}

// await waits until the latest run has a status.
func await(t *testing.T, s *baton.Server, want runtime.Status) {
	t.Helper()
	who := runtime.MustCaller("default", "local", runtime.RoleUser)
	for deadline := time.Now().Add(patience); ; {
		list, err := s.Runtime().Runs.List(t.Context(), who, runtime.RunFilter{Limit: 1})
		must(t, err)
		if len(list.Rows) == 1 && list.Rows[0].Status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the run never was %s: %+v", want, list)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestDoors_CheckHostAndOrigin(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		url := doors[door](t, open(t, baton.Config{Hosts: []string{"app.example.com"}, Tuning: baton.Tuning{Origins: []string{"https://page.example.com"}}}))
		scheme, other := "http", "https"
		if strings.HasPrefix(url, "https:") {
			scheme, other = other, scheme
		}
		for _, c := range []struct {
			header []string
			want   int
		}{
			{nil, 200},
			{[]string{"Host", "evil.example"}, 421},
			{[]string{"Host", "app.example.com"}, 200},
			{[]string{"Origin", "https://evil.example"}, 403},
			{[]string{"Origin", "https://page.example.com"}, 200},
			{[]string{"Host", "app.example.com", "Origin", scheme + "://app.example.com"}, 200},
			{[]string{"Host", "app.example.com", "Origin", other + "://app.example.com"}, 403},
			{[]string{"Host", "127.0.0.1", "X-Forwarded-Host", "evil.example"}, 200},
		} {
			res := send(t, "GET", url+"/api/v1/agents", "", c.header...)
			if res.StatusCode != c.want {
				t.Errorf("%q: %s, want %d", c.header, res.Status, c.want)
			}
		}
	})
}

func TestDoors_CheckBodies(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		url := doors[door](t, open(t, baton.Adjust(baton.Config{Tuning: baton.Tuning{Limits: baton.Limits{Input: 64 << 10}}}, func(c *transports.Config) { c.Body = 1 << 10 })))
		if res := send(t, "POST", url+"/api/v1/agent/runs", "text=1", "Content-Type", "text/plain"); res.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("a form: %s", res.Status)
		}
		if door == "fiber" { // the program's own limit
			return
		}
		large := `{"agent":"echo","content":"` + strings.Repeat("x", 128<<10) + `"}`
		if res := send(t, "POST", url+"/api/v1/agent/runs", large, "Expect", "100-continue"); res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a large body: %s", res.Status)
		}
	})
}

// After Close, requests get an error while the program's own server continues. An open stream does not delay Close.
func TestClose_EndsAllRequests(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		s := open(t, baton.Config{})
		url := doors[door](t, s)
		if res := send(t, "GET", url+"/readyz", ""); res.StatusCode != http.StatusOK {
			t.Errorf("before: %s", res.Status)
		}
		long := strings.Replace(script, "600", "3600000", 1)
		lines := bufio.NewScanner(send(t, "POST", url+"/api/v1/agent/runs", long, "Accept", "text/event-stream").Body)
		until(t, lines, "TOOL_CALL_END")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		until(t, lines, `"code":"interrupted"`)
		for _, path := range []string{"/readyz", "/api/v1/agent/runs/main/events"} {
			res := send(t, "GET", url+path, "")
			var p struct{ Detail, Code string }
			if err := json.Unmarshal([]byte(answer(t, res)), &p); err != nil || res.StatusCode != http.StatusServiceUnavailable || p.Code != "stopping" || res.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %s %+v", path, res.Status, p)
			}
		}
	})
}

func TestServerRun_ServesUntilContextEnds(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if res := send(t, "GET", s.URL()+"/readyz", ""); res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", s.Addr()); err == nil {
		t.Error("the address still accepts connections")
	}
}
