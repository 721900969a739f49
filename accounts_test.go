package baton_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/storage/storagetest"
)

// onBoth runs a test on a database of each kind.
func onBoth(t *testing.T, test func(t *testing.T, database string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "sqlite:"+sqlitetest.New(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, storagetest.Postgres(t).NewDatabase(t)) })
}

// known opens a server that takes API keys, on a port of its own.
func known(t *testing.T, database string) *baton.Server {
	t.Helper()
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", Database: database, APIKeys: true,
		Timeouts: baton.Timeouts{OnDisconnectGrace: 10 * time.Millisecond},
	})
	t.Cleanup(func() { // with time for what is at work
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
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text, id
}

// ticketFor asks for a ticket, and returns its text and when it ends.
func ticketFor(t *testing.T, s *baton.Server, key, path string) (string, time.Time) {
	t.Helper()
	body, _ := json.Marshal(map[string]string{"path": path})
	res := send(t, "POST", s.URL()+"/api/v1/stream-tickets", string(body), "Authorization", key)
	text := answer(t, res)
	var got struct {
		Ticket    string
		ExpiresAt time.Time
	}
	if err := json.Unmarshal([]byte(text), &got); res.StatusCode != http.StatusCreated || err != nil || got.Ticket == "" {
		t.Fatalf("%s: %s %s", path, res.Status, text)
	}
	return got.Ticket, got.ExpiresAt
}

// status opens a stream, or asks, and returns the status of the answer.
func status(t *testing.T, method, url string, header ...string) int {
	t.Helper()
	res := send(t, method, url, "", header...)
	_ = res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized && res.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s %s: 401 without WWW-Authenticate", method, url)
	}
	return res.StatusCode
}

// TestMe has callers told who they are.
func TestMe(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		s := known(t, database)
		ends := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		alice, _ := newKey(t, s, "alice", ends, "p1", "p2")
		bob, _ := newKey(t, s, "bob", time.Time{})
		for _, c := range []struct {
			key, query string
			want       string
		}{
			{alice, "", `{"user":"alice","projectId":"p1","projects":["p1","p2"],"role":"user","authentication":"api-key","expiresAt":"` +
				ends.UTC().Format(time.RFC3339Nano) + `","version":"` + baton.Version() + `"}`},
			{alice, "?projectId=p2", `{"user":"alice","projectId":"p2","projects":["p1","p2"],"role":"user","authentication":"api-key","expiresAt":"` +
				ends.UTC().Format(time.RFC3339Nano) + `","version":"` + baton.Version() + `"}`},
			{alice, "?projectId=p3", `{"detail":"Project not found","code":"not_found"}`},
			{bob, "", `{"user":"bob","projectId":"p1","projects":["p1"],"role":"user","authentication":"api-key","expiresAt":null,"version":"` + baton.Version() + `"}`},
		} {
			if got := answer(t, send(t, "GET", s.URL()+"/api/v1/me"+c.query, "", "Authorization", c.key)); got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.query, got, c.want)
			}
		}
		if got := status(t, "GET", s.URL()+"/api/v1/me"); got != http.StatusUnauthorized {
			t.Errorf("nobody is told %d", got)
		}
	})
}

func TestServerKnowsKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		s := known(t, database)
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
			t.Errorf("a socket of nobody's: %d", got)
		}
		for _, twice := range [][2]string{{alice, alice}, {alice, bob}, {bob, "Bearer x"}} {
			raw := "GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + twice[0] + "\r\nAuthorization: " + twice[1] + "\r\nConnection: close\r\n\r\n"
			if got := talk(t, s, raw); !strings.HasPrefix(got, "HTTP/1.1 401") || !strings.Contains(got, "one header Authorization") {
				t.Errorf("two keys: %s", got)
			}
		}
		if err := s.RevokeAPIKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := status(t, "GET", agents, "Authorization", alice); got != 401 {
			t.Errorf("a key that was revoked: %d", got)
		}
		if err := s.RevokeAPIKey(t.Context(), id); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("a key that was revoked is revoked: %v", err)
		}
		if got := status(t, "GET", agents, "Authorization", bob); got != 200 {
			t.Errorf("a key that was not revoked: %d", got)
		}
	})
}

// talk sends bytes and returns what comes back until the end.
func talk(t *testing.T, s *baton.Server, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestTicketsOpenStreams(t *testing.T) {
	onBoth(t, func(t *testing.T, database string) {
		s := known(t, database)
		alice, id := newKey(t, s, "alice", time.Time{}, "p1", "p2")
		bob, _ := newKey(t, s, "bob", time.Time{})
		for key, run := range map[string]string{alice: "one", bob: "other"} {
			res := send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"echo","threadId":"ä/main","content":"`+run+`"}`, "Authorization", key, "Accept", "text/event-stream")
			answer(t, res)
		}
		const path = "/api/v1/agent/runs/%C3%A4%2Fmain/events"
		ticket, ends := ticketFor(t, s, alice, path)
		if left := time.Until(ends); left > 12*time.Hour || left < 11*time.Hour {
			t.Errorf("a ticket lasts for %v", left)
		}
		for range 2 { // an EventSource comes back with the same URL
			got := answer(t, send(t, "GET", s.URL()+path+"?ticket="+ticket, ""))
			if !strings.Contains(got, `"delta":"one`) || strings.Contains(got, "other") {
				t.Errorf("alice's ticket shows %s", got)
			}
		}
		if got := status(t, "GET", s.URL()+strings.ToLower(path)+"?ticket="+ticket); got != 200 {
			t.Errorf("the path written otherwise: %d", got)
		}
		forged := ticket[:len(ticket)-2] + "xx"
		head, tail, _ := strings.Cut(ticket, ".")
		for what, c := range map[string]struct{ method, url string }{
			"another thread":   {"GET", "/api/v1/agent/runs/other/events?ticket=" + ticket},
			"another route":    {"GET", "/api/v1/events?ticket=" + ticket},
			"another socket":   {"GET", "/api/v1/agent/runs/%C3%A4%2Fmain/ws?ticket=" + ticket},
			"no stream":        {"GET", "/api/v1/agents?ticket=" + ticket},
			"HEAD":             {"HEAD", path + "?ticket=" + ticket},
			"POST":             {"POST", path + "?ticket=" + ticket},
			"a new ticket":     {"POST", "/api/v1/stream-tickets?ticket=" + ticket},
			"MCP":              {"POST", "/mcp?ticket=" + ticket},
			"forged":           {"GET", path + "?ticket=" + forged},
			"cut":              {"GET", path + "?ticket=" + head},
			"without a body":   {"GET", path + "?ticket=." + tail},
			"empty":            {"GET", path + "?ticket="},
			"several":          {"GET", path + "?ticket=" + ticket + "&ticket=" + ticket},
			"path with a dot":  {"GET", "/api/v1/agent/runs/x/../%C3%A4%2Fmain/events?ticket=" + ticket},
			"a slash too many": {"GET", "/api/v1/agent/runs/%C3%A4/main/events?ticket=" + ticket},
		} {
			if got := status(t, c.method, s.URL()+c.url); got != 401 {
				t.Errorf("%s: %d", what, got)
			}
		}
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket, "Authorization", alice); got != 401 {
			t.Errorf("a ticket and a key: %d", got)
		}
		if got := status(t, "GET", s.URL()+path+"?projectId=p2&ticket="+ticket); got != 404 {
			t.Errorf("a ticket in another project of alice's: %d", got)
		}

		ws, _ := ticketFor(t, s, alice, "/api/v1/ws?projectId=p2")
		c, got := dial(t, s.URL()+"/api/v1/ws?ticket="+ws, nil)
		if got != http.StatusSwitchingProtocols {
			t.Fatalf("a socket: %d", got)
		}
		if err := c.WriteMessage(websocket.TextMessage, []byte(`{"op":"run","agent":"echo","content":"hello"}`)); err != nil {
			t.Fatal(err)
		}
		hear(t, c, `"op":"ack"`)
		if runs, err := s.Runtime().Runs(t.Context(), runtime.MustCaller("p2", "alice", runtime.RoleUser), runtime.RunFilter{Limit: 10}); err != nil || len(runs.Rows) != 1 {
			t.Errorf("a socket for p2 has started %d runs there, %v", len(runs.Rows), err)
		}
		if _, got := dial(t, s.URL()+"/api/v1/agui/echo/ws?ticket="+ws, nil); got != 401 {
			t.Errorf("another socket: %d", got)
		}

		if err := s.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		s = known(t, database)
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket); got != 200 {
			t.Errorf("after a restart: %d", got)
		}
		if err := s.RevokeAPIKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket); got != 401 {
			t.Errorf("a ticket of a key that was revoked: %d", got)
		}
		other, _ := ticketFor(t, s, bob, path)
		if err := s.ResetTickets(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := status(t, "GET", s.URL()+path+"?ticket="+other); got != 401 {
			t.Errorf("a ticket of before they were made void: %d", got)
		}
	})
}

// hear reads up to the frame with a text.
func hear(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	for {
		_, b, err := c.ReadMessage()
		if err != nil {
			t.Fatalf("before %s: %v", text, err)
		}
		if strings.Contains(string(b), text) {
			return
		}
	}
}

// opened is a stream or a socket that was opened with a credential.
type opened struct {
	name  string
	ended chan string // gets how it has ended
}

// openAll opens everything that lasts, as one who has a run under way in main.
func openAll(t *testing.T, s *baton.Server, key string) (all []opened) {
	t.Helper()
	follow := func(name string, body io.ReadCloser) {
		o := opened{name, make(chan string, 1)}
		lines := bufio.NewScanner(body)
		if !lines.Scan() {
			t.Fatalf("%s begins with nothing: %v", name, lines.Err())
		}
		go func() { // ends with the stream
			last := ""
			for lines.Scan() {
				if strings.TrimSpace(lines.Text()) != "" {
					last = lines.Text()
				}
			}
			if lines.Err() != nil {
				last = lines.Err().Error()
			}
			o.ended <- last
		}()
		all = append(all, o)
	}
	res := send(t, "POST", s.URL()+"/api/v1/agent/runs", slow("main"), "Authorization", key, "Accept", "text/event-stream")
	follow("POST", res.Body)
	for _, path := range []string{
		"/api/v1/agent/runs/main/events?follow=true", "/api/v1/events", "/api/v1/agents/stream?agent=scripted", "/api/v1/agui/events",
	} {
		follow(path, send(t, "GET", s.URL()+path, "", "Authorization", key).Body)
	}
	follow("connect", send(t, "POST", s.URL()+"/api/v1/agui/scripted/connect", `{"threadId":"main","messages":[]}`, "Authorization", key).Body)
	for _, path := range []string{"/api/v1/agent/runs/main/ws?follow=true", "/api/v1/ws", "/api/v1/agui/scripted/ws"} {
		c, got := dial(t, s.URL()+path, http.Header{"Authorization": {key}})
		if got != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %d", path, got)
		}
		switch path {
		case "/api/v1/ws":
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"op":"subscribe","threadId":"main"}`))
			hear(t, c, `"op":"ack"`)
		case "/api/v1/agui/scripted/ws":
			input := map[string]any{"threadId": "other", "messages": []any{map[string]string{"id": "1", "role": "user", "content": slowScript}}}
			_ = c.WriteJSON(input)
			read(t, c, "TEXT_MESSAGE_CONTENT")
		}
		o := opened{path, make(chan string, 1)}
		go func() { // ends with the socket
			for {
				if _, _, err := c.ReadMessage(); err != nil {
					o.ended <- err.Error()
					return
				}
			}
		}()
		all = append(all, o)
	}
	return all
}

const slowScript = `{"do":[{"say":"first"},{"tool":"sleep","args":{"ms":4000}},{"say":"last"}]}`

func slow(thread string) string {
	body, _ := json.Marshal(map[string]string{"agent": "scripted", "threadId": thread, "content": slowScript})
	return string(body)
}

// TestStreamsEndWithTheirCredential has all that lasts open with a key, which is revoked or expires. The runs go on.
func TestStreamsEndWithTheirCredential(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"revoked": 0, "expired": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, database string) {
				s := known(t, database)
				var expires time.Time
				if lasts > 0 {
					expires = time.Now().Add(lasts)
				}
				alice, id := newKey(t, s, "alice", expires)
				bob, _ := newKey(t, s, "bob", time.Time{})
				stays := bufio.NewScanner(send(t, "GET", s.URL()+"/api/v1/events", "", "Authorization", bob).Body)
				until(t, stays, "keepalive")
				all := openAll(t, s, alice)
				if lasts == 0 {
					if err := s.RevokeAPIKey(t.Context(), id); err != nil {
						t.Fatal(err)
					}
				}
				for _, o := range all {
					select {
					case how := <-o.ended:
						if strings.HasSuffix(o.name, "ws") || strings.Contains(o.name, "ws?") {
							if !strings.Contains(how, "4401") {
								t.Errorf("%s has ended with %s", o.name, how)
							}
						} else if strings.Contains(how, "EOF") || strings.Contains(how, "reset") {
							t.Errorf("%s was cut off: %s", o.name, how)
						}
					case <-time.After(patience):
						t.Errorf("%s has not ended", o.name)
					}
				}
				if got := status(t, "GET", s.URL()+"/api/v1/events", "Authorization", alice); got != 401 {
					t.Errorf("who comes back gets %d", got)
				}
				who := runtime.MustCaller("p1", "alice", runtime.RoleUser)
				deadline := time.Now().Add(patience)
				for {
					runs, err := s.Runtime().Runs(t.Context(), who, runtime.RunFilter{Statuses: []runtime.Status{runtime.Completed}, Limit: 10})
					if err != nil {
						t.Fatal(err)
					}
					if len(runs.Rows) == 2 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("%d runs have completed whose streams have ended", len(runs.Rows))
					}
					<-time.After(20 * time.Millisecond)
				}
				answer(t, send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"echo","content":"hello"}`, "Authorization", bob, "Accept", "text/event-stream"))
				until(t, stays, "event: ") // whose key is good sees on
			})
		})
	}
}

// TestTicketEndsWithItsKey has a key that lasts for two seconds.
func TestTicketEndsWithItsKey(t *testing.T) {
	s := known(t, "")
	expires := time.Now().Add(2 * time.Second)
	alice, _ := newKey(t, s, "alice", expires)
	ticket, ends := ticketFor(t, s, alice, "/api/v1/events")
	if ends.After(expires) {
		t.Errorf("the ticket lasts until %v, the key until %v", ends, expires)
	}
	res := send(t, "GET", s.URL()+"/api/v1/events?ticket="+ticket, "")
	if res.StatusCode == http.StatusOK { // unless the machine was slow
		answer(t, res) // it ends
	}
	if time.Now().Before(ends) {
		t.Error("the stream has ended before its ticket")
	}
	if got := status(t, "GET", s.URL()+"/api/v1/events?ticket="+ticket); got != 401 {
		t.Errorf("who comes back gets %d", got)
	}
}

// kept is a log that a test reads.
type kept struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (k *kept) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.Write(p)
}

func (k *kept) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.String()
}

// TestLogsHoldNoCredential sends keys and tickets in every way that goes wrong, to a server that logs all there is.
func TestLogsHoldNoCredential(t *testing.T) {
	log := new(kept)
	s, err := baton.New(t.Context(), baton.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + sqlitetest.New(t), APIKeys: true, Plugins: builtin.Plugins(),
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
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
		"GET /api/v1/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + alice, // and nothing more
	} {
		c, err := net.Dial("tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
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
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	halves := strings.SplitAfter(ticket, ".")
	for _, part := range []string{secret[20:40], halves[0][:20], halves[1][:20], url.QueryEscape(ticket)} {
		if i := strings.Index(log.String(), part); i >= 0 {
			t.Errorf("the log holds a part of a credential: %s", log.String()[max(0, i-200):i])
		}
		if i := strings.Index(said.String(), part); i >= 0 {
			t.Errorf("an answer holds a part of a credential: %s", said.String()[max(0, i-200):i])
		}
	}
	if !strings.Contains(log.String(), "a caller is not known") {
		t.Errorf("the log has nothing to say: %s", log.String())
	}
}

func TestAccountsAreOfOneKind(t *testing.T) {
	_, err := baton.New(t.Context(), baton.Config{
		Database: "sqlite:" + sqlitetest.New(t), APIKeys: true, Accounts: baton.AuthenticatorFunc(byHeader),
	})
	if err == nil || !strings.Contains(err.Error(), "APIKeys") {
		t.Error(err)
	}
}

// TestTicketsOfAProgramsOwnAccounts asks a program's own Authenticator once, and lets tickets open streams for those whom
// it knew.
func TestTicketsOfAProgramsOwnAccounts(t *testing.T) {
	through(t, func(t *testing.T, door string) {
		if door == "HTTP/2" {
			return
		}
		s := open(t, baton.Config{Accounts: baton.AuthenticatorFunc(byHeader)})
		base := doors[door](t, s)
		res := send(t, "POST", base+"/api/v1/stream-tickets", `{"path":"/api/v1/ws"}`, "User", "p1/alice/user")
		var got struct{ Ticket string }
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil {
			t.Fatal(err)
		}
		for what, c := range map[string]struct {
			path string
			want int
		}{"the ticket": {"/api/v1/ws?ticket=" + got.Ticket, 101}, "none": {"/api/v1/ws", 401}, "another": {"/api/v1/agui/echo/ws?ticket=" + got.Ticket, 401}} {
			if _, status := dial(t, base+c.path, nil); status != c.want {
				t.Errorf("%s: %d, want %d", what, status, c.want)
			}
		}
	})
}

func BenchmarkKey(b *testing.B) {
	s := open(b, baton.Config{
		Listen: "127.0.0.1:0", APIKeys: true, Limits: baton.Limits{RequestsPerUser: -1, RequestsPerProject: -1},
	})
	text, _, err := s.CreateAPIKey(b.Context(), "alice", []string{"p1"}, runtime.RoleUser, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	req := fmt.Sprintf("GET /api/v1/workflows HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", text)
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for b.Loop() {
		if _, err := io.WriteString(c, req); err != nil {
			b.Fatal(err)
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// TestIdempotencyKeysAreScoped sends the same key and body in every project, as every user and in another's stead: each is a request
// of its own, and each is answered again by the same alone.
func TestIdempotencyKeysAreScoped(t *testing.T) {
	s := known(t, "sqlite:"+sqlitetest.New(t))
	alice, _ := newKey(t, s, "alice", time.Time{}, "p1", "p2")
	bob, _ := newKey(t, s, "bob", time.Time{})
	text, _, err := s.CreateAPIKey(t.Context(), "olga", []string{"p1"}, runtime.RoleOperator, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
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
