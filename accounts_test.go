package baton_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// onBoth runs a test on a database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, database string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+sqlitetest.New(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, postgrestest.New(t)) })
}

// openWithKeys opens a server that accepts API keys, on a free port.
func openWithKeys(t *testing.T, database string, more ...plugins.Plugin) *baton.Server {
	t.Helper()
	s := open(t, baton.Config{
		Plugins: append(builtin.Plugins(), more...), Listen: "127.0.0.1:0", Database: database, Tuning: baton.Tuning{APIKeys: true, Timeouts: baton.Timeouts{OnDisconnectGrace: 10 * time.Millisecond}},
	})
	t.Cleanup(func() { // with time for running work
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newKey(t *testing.T, s *baton.Server, user string, expires time.Time, projects ...string) (header, id string) {
	t.Helper()
	if len(projects) == 0 {
		projects = []string{"p1"}
	}
	text, id, err := s.CreateAPIKey(t.Context(), user, projects, runtime.RoleUser, expires)
	must(t, err)
	return "Bearer " + text, id
}

// status makes a request and returns the status of the answer.
func status(t *testing.T, method, url string, header ...string) int {
	t.Helper()
	res := send(t, method, url, "", header...)
	_ = res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized && res.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s %s: 401 without WWW-Authenticate", method, url)
	}
	return res.StatusCode
}

func TestMe(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		ends := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		alice, _ := newKey(t, s, "alice", ends, "p1", "p2")
		bob, _ := newKey(t, s, "bob", time.Time{})
		for _, c := range []struct {
			key, query string
			want       string
		}{
			{alice, "", `{"user":"alice","projectId":"p1","projects":["p1","p2"],"role":"user","authentication":"api-key","expiresAt":"` +
				ends.UTC().Format(time.RFC3339Nano) + `","version":"` + baton.Version() + `","currency":null}`},
			{alice, "?projectId=p2", `{"user":"alice","projectId":"p2","projects":["p1","p2"],"role":"user","authentication":"api-key","expiresAt":"` +
				ends.UTC().Format(time.RFC3339Nano) + `","version":"` + baton.Version() + `","currency":null}`},
			{alice, "?projectId=p3", `{"detail":"Project not found","code":"not_found"}`},
			{bob, "", `{"user":"bob","projectId":"p1","projects":["p1"],"role":"user","authentication":"api-key","expiresAt":null,"version":"` + baton.Version() + `","currency":null}`},
		} {
			if got := answer(t, send(t, "GET", s.URL()+"/api/v1/me"+c.query, "", "Authorization", c.key)); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.query, got, c.want)
			}
		}
		if got := status(t, "GET", s.URL()+"/api/v1/me"); got != http.StatusUnauthorized {
			t.Errorf("without a credential: %d", got)
		}
	})
}

func TestKeys_Authenticate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		alice, id := newKey(t, s, "alice", time.Time{}, "p1", "p2")
		bob, _ := newKey(t, s, "bob", time.Time{})
		agents := s.URL() + "/api/v1/agents"
		for _, c := range []struct {
			url, key string
			want     int
		}{
			{agents, alice, 200},
			{agents + "?projectId=p2", alice, 200},
			{agents + "?projectId=p2", bob, 404},
			{agents + "?projectId=default", alice, 404},
			{agents, "", 401},
			{agents, alice + "x", 401},
			{agents, strings.TrimPrefix(alice, "Bearer "), 401},
			{agents, alice + ", " + bob, 401},
			{agents + "?token=" + strings.TrimPrefix(alice, "Bearer "), "", 401},
			{agents + "?access_token=x", alice, 401},
			{s.URL() + "/readyz", "", 200},
			{s.URL() + "/openapi.json", "", 200},
		} {
			var header []string
			if c.key != "" {
				header = []string{"Authorization", c.key}
			}
			if got := status(t, "GET", c.url, header...); got != c.want {
				t.Errorf("%s with %q: %d, want %d", c.url, c.key, got, c.want)
			}
		}
		if _, got := dial(t, s.URL()+"/api/v1/ws", nil); got != http.StatusUnauthorized {
			t.Errorf("a socket without a credential: %d", got)
		}
		for _, twice := range [][2]string{{alice, alice}, {alice, bob}, {bob, "Bearer x"}} {
			raw := "GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + twice[0] + "\r\nAuthorization: " + twice[1] + "\r\nConnection: close\r\n\r\n"
			if got := talk(t, s, raw); !strings.HasPrefix(got, "HTTP/1.1 401") || !strings.Contains(got, "one header Authorization") {
				t.Errorf("two keys: %s", got)
			}
		}
		must(t, s.RevokeAPIKey(t.Context(), id))
		if got := status(t, "GET", agents, "Authorization", alice); got != 401 {
			t.Errorf("a revoked key: %d", got)
		}
		if err := s.RevokeAPIKey(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("revoke a revoked key: %v", err)
		}
		if got := status(t, "GET", agents, "Authorization", bob); got != 200 {
			t.Errorf("a valid key: %d", got)
		}
	})
}

// talk sends bytes and returns the answer up to its end.
func talk(t *testing.T, s *baton.Server, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

// logBuffer is a log that a test reads.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (k *logBuffer) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.Write(p)
}

func (k *logBuffer) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.String()
}

// TestLog_HasNoCredentials sends keys and tickets in all kinds of failing requests to a server that logs at level debug.
func TestLog_HasNoCredentials(t *testing.T) {
	t.Parallel()
	log := new(logBuffer)
	s, err := baton.New(baton.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + sqlitetest.New(t), Tuning: baton.Tuning{APIKeys: true}, Plugins: builtin.Plugins(),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err == nil {
		err = s.Start(t.Context())
	}
	must(t, err)
	defer func() { _ = s.Close() }()
	alice, _ := newKey(t, s, "alice", time.Time{})
	secret := strings.TrimPrefix(alice, "Bearer ")
	ticket, _ := ticketFor(t, s, alice, "/api/v1/events")
	var said strings.Builder
	for _, raw := range []string{
		"GET /api/v1/agents?access_token=" + secret + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/agents?ticket=" + ticket + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/nothing?ticket=" + ticket + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + secret + "\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic " + secret + "\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice + "a\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: evil.example\r\nAuthorization: " + alice + "\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice + "\r\nNo colon here\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice + "\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n",
		"POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice + "\r\nContent-Length: -1\r\n\r\n",
		"GET /api/v1/events?ticket=" + ticket + "%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/events\x00?ticket=" + ticket + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /api/v1/agents HTTP/9.9\r\nAuthorization: " + alice + "\r\n\r\n",
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice, // the request ends here
	} {
		c, err := net.Dial("tcp", s.Addr())
		must(t, err)
		if _, err := io.WriteString(c, raw); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		said.Write(b)
		_ = c.Close()
	}
	c, _ := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {alice}})
	_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":"`+secret+`"`))
	_ = c.Close()
	must(t, s.Close())
	halves := strings.SplitAfter(ticket, ".")
	for _, part := range []string{secret[20:40], halves[0][:20], halves[1][:20], url.QueryEscape(ticket)} {
		if i := strings.Index(log.String(), part); i >= 0 {
			t.Errorf("the log contains a part of a credential: %s", log.String()[max(0, i-200):i])
		}
		if i := strings.Index(said.String(), part); i >= 0 {
			t.Errorf("an answer contains a part of a credential: %s", said.String()[max(0, i-200):i])
		}
	}
	if !strings.Contains(log.String(), "a caller is not known") {
		t.Errorf("the log lacks the expected lines: %s", log.String())
	}
}

func TestNew_RefusesAPIKeysWithAccounts(t *testing.T) {
	t.Parallel()
	_, err := baton.New(baton.Config{
		Tuning: baton.Tuning{APIKeys: true}, Accounts: baton.AuthenticatorFunc(byHeader),
	})
	if err == nil || !strings.Contains(err.Error(), "APIKeys") {
		t.Error(err)
	}
}

// The same idempotency key and body from other users, in other projects and on behalf of other users are separate requests. A repeat
// gets the answer of its own request.
func TestIdempotencyKey_IsScoped(t *testing.T) {
	t.Parallel()
	s := openWithKeys(t, "sqlite:"+sqlitetest.New(t))
	alice, _ := newKey(t, s, "alice", time.Time{}, "p1", "p2")
	bob, _ := newKey(t, s, "bob", time.Time{})
	text, _, err := s.CreateAPIKey(t.Context(), "olga", []string{"p1"}, runtime.RoleOperator, time.Time{})
	must(t, err)
	olga := "Bearer " + text
	post := func(key, path, body, member string) string {
		t.Helper()
		res := send(t, "POST", s.URL()+path, body, "Authorization", key, "Idempotency-Key", "same")
		var got map[string]any
		if text := answer(t, res); json.Unmarshal([]byte(text), &got) != nil || got[member] == nil {
			t.Fatalf("%s: %s %s", path, res.Status, text)
		}
		return got[member].(string)
	}
	const body = `{"agent":"echo","threadId":"main","content":"x"}`
	seen := map[string]string{}
	ask := func(who, key, path, body, member string) string {
		t.Helper()
		id := post(key, path, body, member)
		if before, ok := seen[id]; ok {
			t.Errorf("%s gets what %s got", who, before)
		}
		seen[id] = who
		if again := post(key, path, body, member); again != id {
			t.Errorf("%s is answered anew", who)
		}
		return id
	}
	run := ask("alice", alice, "/api/v1/agent/runs", body, "runId")
	ask("alice in another project", alice, "/api/v1/agent/runs?projectId=p2", body, "runId")
	ask("alice on another path", alice, "/api/projects/p1/agent-runs", body, "runId")
	ask("bob", bob, "/api/v1/agent/runs", body, "runId")
	ask("olga", olga, "/api/v1/agent/runs", body, "runId")
	path := "/api/projects/p1/agent-runs/" + run + "/messages"
	ask("alice who appends", alice, path, `{"content":"more"}`, "id")
	ask("olga in her stead", olga, path+"?user=alice", `{"content":"more"}`, "id")
}
