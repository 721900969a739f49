package transports_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/transporttest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func TestMain(m *testing.M) { transporttest.Main(m) }

const patience = transporttest.Patience

// mount is a transport made of a function.
type mount func(r *table)

func (m mount) Routes() []transports.Route {
	t := new(table)
	m(t)
	return t.routes
}

type table struct{ routes []transports.Route }

func (t *table) Get(path string, h fiber.Handler)  { t.add(fiber.MethodGet, path, h) }
func (t *table) Post(path string, h fiber.Handler) { t.add(fiber.MethodPost, path, h) }

func (t *table) add(method, path string, h fiber.Handler) {
	t.routes = append(t.routes, transports.Route{
		Method: method, Path: path, Input: strings.HasSuffix(path, "runs"),
		Known: func(c *fiber.Ctx, _ runtime.Caller) error { return h(c) },
	})
}

// routes has one of each way to answer.
var routes = mount(func(r *table) {
	length := func(c *fiber.Ctx) error { return c.JSON(len(c.BodyRaw())) }
	for _, path := range []string{"/small", "/api/v1/agent/runs", "/api/projects/:projectId/agent-runs"} {
		r.Post(path, length)
	}
	r.Get("/ok", func(c *fiber.Ctx) error { return c.JSON("ok") })
	r.Get("/panic", func(*fiber.Ctx) error { panic("secret") })
	r.Get("/unknown", func(*fiber.Ctx) error { return errors.New("secret") })
	for _, path := range []string{"/runs/:runId/unknown", "/threads/:thread_id/unknown", "/conversations/:conversation_id/runs/:run_id/unknown"} {
		r.Get(path, func(*fiber.Ctx) error { return errors.New("secret") })
	}
	for kind := runtime.KindInvalid; kind <= runtime.KindUnavailable; kind++ {
		r.Get(fmt.Sprintf("/kind/%d", kind), func(*fiber.Ctx) error {
			return fmt.Errorf("secret: %w", &runtime.Error{Kind: kind, Code: "a_code", Detail: "A detail", RetryAfter: 1500 * time.Millisecond})
		})
	}
})

// TestRoutesSayWhoTheyAreFor compares the mounted routes with the table of routes.
func TestRoutesSayWhoTheyAreFor(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Accounts: auth.AuthenticatorFunc(func(*http.Request) (auth.Identity, error) {
		return auth.Identity{}, errors.New("nobody")
	})})
	public := []string{"GET /healthz", "GET /readyz"}
	for _, r := range s.Web.Routes() {
		method, path, _ := strings.Cut(r, " ")
		got := s.do(method, path, nil).status
		if known := slices.Contains(public, r) || method == http.MethodHead && slices.Contains(public, "GET "+path); known == (got == 401) {
			t.Errorf("%s answers nobody with %d", r, got)
		}
	}
	answers := func(*fiber.Ctx) error { return nil }
	for name, r := range map[string]transports.Route{
		"nobody": {Method: "GET", Path: "/x"},
		"both":   {Method: "GET", Path: "/x", Public: answers, Known: func(*fiber.Ctx, runtime.Caller) error { return nil }},
	} {
		_, err := transports.New(transports.Config{Runtime: s.Runtime, Streams: s.Streams}, mount(func(t *table) { t.routes = append(t.routes, r) }))
		if err == nil {
			t.Errorf("a route for %s is mounted", name)
		}
	}
}

// server is a server of routes.
type server struct {
	*transporttest.Server
	tls *tls.Config // clients speak it; nil for plain HTTP
	log *buffer
}

// buffer is a log that can be read meanwhile.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func serve(tb testing.TB, cfg transports.Config) *server {
	tb.Helper()
	return serveWith(tb, cfg, transports.StreamConfig{})
}

func serveWith(tb testing.TB, cfg transports.Config, streams transports.StreamConfig, mounts ...transports.Mounter) *server {
	tb.Helper()
	log := new(buffer)
	return &server{log: log, Server: transporttest.Start(tb, transporttest.Config{
		Server: cfg, Streams: streams, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Mount: func(s *transporttest.Server) []transports.Mounter { return append(mounts, routes, streaming(s)) },
	})}
}

// answer is a response that was read.
type answer struct {
	to     string
	status int
	header http.Header
	body   string
}

// do sends a request; header holds pairs of name and value, and the name Host sets the Host.
func (s *server) do(method, path string, body io.Reader, header ...string) answer {
	s.Helper()
	scheme := "http://"
	if s.tls != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(s.Context(), method, scheme+s.Addr+path, body)
	must(s, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true, TLSClientConfig: s.tls}).RoundTrip(req)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(s, err)
	return answer{method + " " + path, resp.StatusCode, resp.Header, string(raw)}
}

// refused checks an error answer, which must be complete.
func (s *server) refused(a answer, status int, code string) {
	s.Helper()
	var p transports.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != status || p.Code != code || p.Detail == "" {
		s.Errorf("%s: got %d %s, want %d with the code %s", a.to, a.status, a.body, status, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		s.Errorf("got the Content-Type %q", got)
	}
}

func TestErrorsBecomeAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for path, want := range map[string]struct {
		status int
		code   string
		retry  string
	}{
		"/kind/0":  {400, "a_code", "2"},
		"/kind/1":  {401, "a_code", "2"},
		"/kind/2":  {404, "a_code", "2"},
		"/kind/3":  {403, "a_code", "2"},
		"/kind/4":  {409, "a_code", "2"},
		"/kind/5":  {413, "a_code", "2"},
		"/kind/6":  {429, "a_code", "2"},
		"/kind/7":  {503, "a_code", "2"},
		"/nowhere": {404, "not_found", ""},
		"/small":   {405, "method_not_allowed", ""},
	} {
		a := s.do("GET", path, nil)
		s.refused(a, want.status, want.code)
		if got := a.header.Get("Retry-After"); got != want.retry {
			t.Errorf("%s: got Retry-After %q, want %q", path, got, want.retry)
		}
	}
	if allow := s.do("GET", "/small", nil).header.Get("Allow"); allow != "POST" {
		t.Errorf("got Allow %q", allow)
	}
}

// Two servers that take different ends of one body take part of it for another's request.
func TestRequestsThatMayBeReadOtherwiseAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, head := range []string{
		"HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", "HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length: 5",
		"HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", "HTTP/1.1\r\nX: y\r\nTransfer-Encoding: chunked\r\nContent-Length : 0",
		"HTTP/1.1\r\nTransfer-Encoding: identity", "HTTP/1.1\r\nTransfer-Encoding: chunked, identity", "HTTP/1.1\r\nTransfer-Encoding x: chunked",
		"HTTP/1.1\r\nContent-Length: 0\r\nX Y: z", "HTTP/1.1\r\nContent-Length: 0\r\nOrigin: \r\nOrigin: http://evil.example",
		"HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked", "HTTP/1.1\r\nContent-Length:\r\n 5", "HTTP/1.1\r\nX: y\r\n Transfer-Encoding: chunked",
	} {
		_, in := s.dial("POST /small " + head + "\r\nHost: localhost\r\nContent-Type: application/json\r\n\r\n0\r\n\r\nGET /ok HTTP/1.1\r\nHost: localhost\r\n\r\n")
		raw, err := io.ReadAll(in)
		if err != nil || strings.Count(string(raw), "HTTP/1.") != 1 || !strings.Contains(string(raw), "400 Bad Request") ||
			!strings.Contains(string(raw), `"code":"invalid_request"`) {
			t.Errorf("%q: got %s, %v", head, raw, err)
		}
	}
	_, in := s.dial("POST /small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n")
	if raw, err := io.ReadAll(in); err != nil || !strings.Contains(string(raw), "200 OK") {
		t.Errorf("a chunked body: got %s, %v", raw, err)
	}
}

func TestUnknownErrorsTellNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, path := range []string{"/unknown", "/panic"} {
		a := s.do("GET", path, nil)
		id := a.header.Get("X-Request-Id")
		if want := `{"detail":"internal error","code":"internal","requestId":"` + id + `"}`; a.status != 500 || id == "" || a.body != want {
			t.Errorf("got %d %s, want %s", a.status, a.body, want)
		}
		if log := s.log.String(); !strings.Contains(log, id) || !strings.Contains(log, "secret") {
			t.Errorf("the log does not say what %s was: %s", id, log)
		}
	}
}

// The log has the names in a path, but not its query.
func TestFailedRequestsTellOfTheirRunAndThread(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for path, want := range map[string]string{
		"/runs/r%2F1/unknown?runId=hidden": "run=r/1 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 request=", "/threads/t1/unknown?ticket=hidden": "thread=t1 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 request=",
		"/conversations/c2/runs/r2/unknown": "run=r2 thread=c2 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 request=",
	} {
		if a := s.do("GET", path, nil, "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"); a.status != 500 {
			t.Errorf("%s: got %d", path, a.status)
		}
		if log := s.log.String(); !strings.Contains(log, `msg="request failed" `+want) || strings.Contains(log, "hidden") {
			t.Errorf("%s: no %s in %s", path, want, log)
		}
	}
}

func TestHostsAndOrigins(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Hosts: []string{"Baton.example"}, Origins: []string{"https://app.example"}})
	_, port, _ := net.SplitHostPort(s.Addr)
	for _, c := range []struct {
		host, origin string
		status       int
	}{
		{"", "", 200},
		{"localhost", "", 200},
		{"LOCALHOST:1234", "", 200},
		{"127.0.0.1:" + port, "", 200},
		{"127.8.9.1", "", 200},
		{"[::1]:80", "", 200},
		{"[::ffff:127.0.0.1]", "", 200},
		{"baton.example", "", 200},
		{"baton.EXAMPLE:443", "", 200},
		{"evil.example", "", 421},
		{"localhost.evil.example", "", 421},
		{"127.0.0.1.nip.io", "", 421},
		{"192.168.1.1", "", 421},
		{"0.0.0.0", "", 421},
		{"localhost", "http://localhost", 200},
		{"localhost:" + port, "http://localhost:" + port, 200},
		{"baton.example", "http://baton.example", 200},
		{"baton.example", "https://baton.example", 403},
		{"localhost", "https://app.example", 200},
		{"localhost", "https://APP.example", 200},
		{"localhost", "http://app.example", 403},
		{"localhost", "https://app.example.evil", 403},
		{"localhost", "http://localhost:3000", 403},
		{"localhost", "http://evil.example", 403},
		{"localhost", "ftp://localhost", 403},
		{"localhost", "null", 403},
		{"evil.example", "http://evil.example", 421},
	} {
		for _, path := range []string{"/ok", "/healthz", "/nowhere"} {
			var header []string
			if c.host != "" {
				header = append(header, "Host", c.host)
			}
			if c.origin != "" {
				header = append(header, "Origin", c.origin)
			}
			a := s.do("GET", path, nil, header...)
			switch {
			case c.status == 200 && path == "/nowhere":
				s.refused(a, 404, "not_found")
			case c.status == 421:
				s.refused(a, 421, "foreign_host")
			case c.status == 403:
				s.refused(a, 403, "forbidden")
			case a.status != 200:
				t.Errorf("Host %q, Origin %q, %s: got %d %s", c.host, c.origin, path, a.status, a.body)
			}
			if foreign := strings.EqualFold(c.origin, "https://app.example"); (a.header.Get("Access-Control-Allow-Origin") == c.origin) != foreign && c.origin != "" {
				t.Errorf("Origin %q: got %v", c.origin, a.header)
			}
		}
	}
}

// Pages of admitted origins may send any header, others none.
func TestPreflight_AllowsTheHeadersItAsksFor(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Origins: []string{"https://app.example"}})
	ask := func(origin, headers string) answer {
		return s.do("OPTIONS", "/api/v1/agent/runs", nil, "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", headers)
	}
	for _, asked := range []string{"authorization,content-type", "x-run-id, x-datadog-trace-id", "content-type ,\t x-a", strings.Repeat("x", 1000)} {
		a := ask("https://app.example", asked)
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":   "https://app.example",
			"Access-Control-Allow-Headers":  asked,
			"Access-Control-Allow-Methods":  "GET, HEAD, POST, PUT, PATCH, DELETE",
			"Access-Control-Expose-Headers": "Retry-After, X-Request-Id, Mcp-Session-Id",
			"Access-Control-Max-Age":        "600",
			"Vary":                          "Origin, Access-Control-Request-Headers",
		} {
			if got := a.header.Get(name); a.status != 204 || got != want {
				t.Errorf("%q: got %d, %s: %q, want %q", asked, a.status, name, got, want)
			}
		}
	}
	for _, asked := range []string{"", "x-a; x-b", "x a", `"x"`, "x-\u00fc", "*, x\\", ",", "x,,y", strings.Repeat("x", 3000)} {
		a := ask("https://app.example", asked)
		if got, ok := a.header["Access-Control-Allow-Headers"]; ok || a.status != 204 || a.header.Get("Vary") != "Origin, Access-Control-Request-Headers" {
			t.Errorf("%.40q: got %d and %q", asked, a.status, got)
		}
	}
	s.refused(ask("https://evil.example", "content-type"), 403, "forbidden")
	if a := s.do("GET", "/ok", nil, "Origin", "http://"+s.Addr); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("got %v", a.header)
	}
}

func TestOnlyPlainJSONIsTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, c := range []struct {
		path, kind, encoding string
		status               int
	}{
		{"/small", "application/json", "", 200},
		{"/small", "application/json; charset=utf-8", "", 200},
		{"/small", "Application/JSON", "identity", 200},
		{"/small", "", "", 415},
		{"/small", "text/plain", "", 415},
		{"/small", "application/jsonp", "", 415},
		{"/small", "application/x-www-form-urlencoded", "", 415},
		{"/small", "multipart/form-data; boundary=x", "", 415},
		{"/small", "application/json", "gzip", 415},
		{"/small", "application/json", "br", 415},
		{"/small", "application/json", "deflate, gzip", 415},
	} {
		header := []string{"Content-Type", c.kind}
		if c.encoding != "" {
			header = append(header, "Content-Encoding", c.encoding)
		}
		a := s.do("POST", c.path, strings.NewReader(`{}`), header...)
		if c.status == 415 {
			s.refused(a, 415, "unsupported_media_type")
		} else if a.status != c.status {
			t.Errorf("%+v: got %d %s", c, a.status, a.body)
		}
	}
	if a := s.do("POST", "/small", nil); a.status != 200 {
		t.Errorf("a request without a body: got %d %s", a.status, a.body)
	}
}

func TestCompressedBodiesAreNotInflated(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	s.refused(s.do("POST", "/small", &small, "Content-Type", "application/json", "Content-Encoding", "gzip"), 415, "unsupported_media_type")
}

// chunks hides a body's size, so that it is sent in chunks.
type chunks struct{ io.Reader }

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Body: 10_000, Input: 2_000_000})
	for path, limit := range map[string]int{
		"/small":                             10_000,
		"/api/v1/agent/runs":                 2_000_000,
		"/api/v1/agent/runs/":                2_000_000,
		"/api/v1/agent/runs?x=1":             2_000_000,
		"/api/projects/d%65fault/agent-runs": 2_000_000,
	} {
		for _, chunked := range []bool{false, true} {
			send := func(n int, header ...string) answer {
				var body io.Reader = bytes.NewReader(make([]byte, n))
				if chunked {
					body = chunks{body}
				}
				return s.do("POST", path, body, append(header, "Content-Type", "application/json")...)
			}
			if a := send(limit); a.status != 200 || a.body != fmt.Sprint(limit) {
				t.Errorf("%s: %d bytes: got %d %s", path, limit, a.status, a.body)
			}
			s.refused(send(limit+1), 413, "body_too_large")
			s.refused(send(20<<20), 413, "body_too_large")
			s.refused(send(limit+1, "Expect", "100-continue"), 413, "body_too_large")
		}
	}
}

func TestHeaderLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	if a := s.do("GET", "/ok", nil, "Cookie", strings.Repeat("x", 12_000)); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	s.refused(s.do("GET", "/ok", nil, "Cookie", strings.Repeat("x", 20_000)), 431, "headers_too_large")
}

func TestBrokenRequests(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, request := range []string{"nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\nContent-Length: x\r\n\r\n", "GET /ok HTTP/1.1\r\n\r\n"} {
		c, err := net.Dial("tcp", s.Addr)
		must(t, err)
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, request)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%q: got %d", request, resp.StatusCode)
		}
		_ = c.Close()
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	if a := s.do("GET", "/readyz", nil); a.status != 200 || a.body != `{"status":"ready"}` {
		t.Errorf("got %d %s", a.status, a.body)
	}
	must(t, s.Runtime.Shutdown(t.Context()))
	s.refused(s.do("GET", "/readyz", nil), 503, "stopping")
	if a := s.do("GET", "/healthz", nil); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.body)
	}
}

func TestOtherMachinesAreServedOnlyWhenAllowed(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	accounts := auth.AuthenticatorFunc(func(*http.Request) (auth.Identity, error) { return auth.Identity{}, errors.New("nobody") })
	cfg := transports.Config{Runtime: s.Runtime, Streams: transports.NewStreams(transports.StreamConfig{Runtime: s.Runtime})}
	for listen, want := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true,
		":0": false, "0.0.0.0:0": false, "192.168.1.1:80": false, "[::]:0": false, "example.com:80": false,
	} {
		cfg.Listen, cfg.Insecure = listen, false
		if _, err := transports.New(cfg); (err == nil) != want {
			t.Errorf("%s: got %v", listen, err)
		}
		cfg.Insecure = true
		if _, err := transports.New(cfg); err != nil {
			t.Errorf("%s, insecure: got %v", listen, err)
		}
		cfg.Insecure = false
		for _, c := range []struct {
			accounts auth.Authenticator
			tls      *tls.Config
			want     bool
		}{{accounts, nil, want}, {nil, new(tls.Config), want}, {accounts, new(tls.Config), true}} {
			cfg.Accounts, cfg.TLS = c.accounts, c.tls
			if _, err := transports.New(cfg); (err == nil) != c.want {
				t.Errorf("%s with accounts %v, TLS %v: got %v", listen, c.accounts != nil, c.tls != nil, err)
			}
		}
		cfg.Accounts, cfg.TLS = nil, nil
	}
}

// Shutdown during the start of Serve stops the server.
func TestAServerStopsThatHasJustBegun(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	cfg := transports.Config{Runtime: s.Runtime, Log: slog.New(slog.DiscardHandler)}
	cfg.Streams = transports.NewStreams(transports.StreamConfig{Runtime: s.Runtime, Log: cfg.Log})
	web, err := transports.New(cfg, routes)
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- web.Serve(&asked{Listener: ln, stop: web.Shutdown}) }() // ends with Shutdown
	select {
	case err = <-served:
	case <-time.After(patience):
		t.Fatal("it serves on")
	}
	if err != nil {
		t.Error(err)
	}
}

// asked is a listener whose server is shut down at the second call of Addr, just before it accepts connections.
type asked struct {
	net.Listener
	times int
	stop  func(context.Context) error
}

func (l *asked) Addr() net.Addr {
	if l.times++; l.times == 2 {
		_ = l.stop(context.Background())
	}
	return l.Listener.Addr()
}
