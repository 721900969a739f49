package baton_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
)

// ticketFor requests a ticket, and returns its text and its expiry.
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

func TestTicket_OpensStreams(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
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
		for range 2 { // an EventSource reconnects with the same URL
			got := answer(t, send(t, "GET", s.URL()+path+"?ticket="+ticket, ""))
			if !strings.Contains(got, `"delta":"one`) || strings.Contains(got, "other") {
				t.Errorf("alice's ticket shows %s", got)
			}
		}
		if got := status(t, "GET", s.URL()+strings.ToLower(path)+"?ticket="+ticket); got != 200 {
			t.Errorf("the path in another spelling: %d", got)
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
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket, "Authorization", ""); got != 401 {
			t.Errorf("%s: a ticket beside an empty credential: got %d", path, got)
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
		must(t, c.WriteMessage(websocket.TextMessage, []byte(`{"op":"run","agent":"echo","content":"hello"}`)))
		hear(t, c, `"op":"ack"`)
		if runs, err := s.Runtime().Runs.List(t.Context(), runtime.MustCaller("p2", "alice", runtime.RoleUser), runtime.RunFilter{Limit: 10}); err != nil || len(runs.Rows) != 1 {
			t.Errorf("a socket for p2 has started %d runs there, %v", len(runs.Rows), err)
		}
		if _, got := dial(t, s.URL()+"/api/v1/agui/echo/ws?ticket="+ws, nil); got != 401 {
			t.Errorf("another socket: %d", got)
		}

		must(t, s.Shutdown(t.Context()))
		s = openWithKeys(t, database)
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket); got != 200 {
			t.Errorf("after a restart: %d", got)
		}
		must(t, s.RevokeAPIKey(t.Context(), id))
		if got := status(t, "GET", s.URL()+path+"?ticket="+ticket); got != 401 {
			t.Errorf("a ticket of a revoked key: %d", got)
		}
	})
}

// hear reads up to the frame that contains text.
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

// opened is an open stream or socket.
type opened struct {
	name  string
	ended chan string // gets the reason of its end
}

// openAll opens a stream of every kind, beside runs of duration d in the threads main and other.
func openAll(t *testing.T, s *baton.Server, key string, d time.Duration) (all []opened) {
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
	res := send(t, "POST", s.URL()+"/api/v1/agent/runs", slow("main", d), "Authorization", key, "Accept", "text/event-stream")
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
			input := map[string]any{"threadId": "other", "messages": []any{map[string]string{"id": "1", "role": "user", "content": slowScript(d)}}}
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

// slowScript returns a script with a tool call of duration d.
func slowScript(d time.Duration) string {
	return fmt.Sprintf(`{"do":[{"say":"first"},{"tool":"sleep","args":{"ms":%d}},{"say":"last"}]}`, d.Milliseconds())
}

func slow(thread string, d time.Duration) string {
	body, _ := json.Marshal(map[string]string{"agent": "scripted", "threadId": thread, "content": slowScript(d)})
	return string(body)
}

// Streams of every kind end when their key is revoked or expires. The runs continue.
func TestStreams_EndWithCredential(t *testing.T) {
	t.Parallel()
	var opening time.Duration // how long opening takes with keys that do not expire
	for _, name := range []string{"revoked", "expired"} {
		t.Run(name, func(t *testing.T) {
			s := openWithKeys(t, "")
			var expires time.Time
			works := 4 * time.Second
			if name == "expired" {
				lasts := 2*time.Second + 4*opening
				expires = time.Now().Add(lasts)
				works += lasts
			}
			alice, id := newKey(t, s, "alice", expires)
			bob, _ := newKey(t, s, "bob", time.Time{})
			stays := bufio.NewScanner(send(t, "GET", s.URL()+"/api/v1/events", "", "Authorization", bob).Body)
			until(t, stays, "keepalive")
			began := time.Now()
			all := openAll(t, s, alice, works)
			if name == "revoked" {
				opening = max(opening, time.Since(began))
				must(t, s.RevokeAPIKey(t.Context(), id))
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
				t.Errorf("a reconnect gets %d", got)
			}
			who := runtime.MustCaller("p1", "alice", runtime.RoleUser)
			deadline := time.Now().Add(patience)
			for {
				runs, err := s.Runtime().Runs.List(t.Context(), who, runtime.RunFilter{Statuses: []runtime.Status{runtime.Completed}, Limit: 10})
				must(t, err)
				if len(runs.Rows) == 2 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d runs of ended streams have completed", len(runs.Rows))
				}
				<-time.After(20 * time.Millisecond)
			}
			answer(t, send(t, "POST", s.URL()+"/api/v1/agent/runs", `{"agent":"echo","content":"hello"}`, "Authorization", bob, "Accept", "text/event-stream"))
			until(t, stays, "event: ") // its key is valid
		})
	}
}

func TestTicket_EndsWithKey(t *testing.T) {
	t.Parallel()
	s := openWithKeys(t, "")
	expires := time.Now().Add(2 * time.Second)
	alice, _ := newKey(t, s, "alice", expires)
	ticket, ends := ticketFor(t, s, alice, "/api/v1/events")
	if ends.After(expires) {
		t.Errorf("the ticket lasts until %v, the key until %v", ends, expires)
	}
	res := send(t, "GET", s.URL()+"/api/v1/events?ticket="+ticket, "")
	if res.StatusCode == http.StatusOK { // unless the machine was slow
		answer(t, res) // the stream ends
	}
	if time.Now().Before(ends) {
		t.Error("the stream has ended before its ticket")
	}
	if got := status(t, "GET", s.URL()+"/api/v1/events?ticket="+ticket); got != 401 {
		t.Errorf("a reconnect gets %d", got)
	}
}

// The program's Authenticator is called for the request of the ticket, not for the stream that the ticket opens.
func TestTicket_OfOwnAccounts(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		if door == "HTTP/2" {
			return
		}
		s := open(t, baton.Config{Accounts: baton.AuthenticatorFunc(byHeader)})
		base := doors[door](t, s)
		res := send(t, "POST", base+"/api/v1/stream-tickets", `{"path":"/api/v1/ws"}`, "User", "p1/alice/user")
		var got struct{ Ticket string }
		must(t, json.NewDecoder(res.Body).Decode(&got))
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

// signed authenticates by header, and revokes all credentials that one key has signed.
type signed struct {
	withdrawn atomic.Bool
}

func (a *signed) Authenticate(r *http.Request) (baton.Identity, error) {
	id, err := byHeader(r)
	id.Credential, id.Watched = "token", "key"
	return id, err
}

func (a *signed) Valid(_ context.Context, what string) (bool, error) {
	return what == "key" && !a.withdrawn.Load(), nil
}

func (a *signed) Ended(context.Context, []string) ([]string, error) { return nil, nil }

// A ticket ends when the Watcher revokes its credential.
func TestTicket_EndsWithWatchedCredential(t *testing.T) {
	t.Parallel()
	accounts := new(signed)
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Accounts: accounts})
	res := send(t, "POST", s.URL()+"/api/v1/stream-tickets", `{"path":"/api/v1/ws"}`, "User", "p1/alice/user")
	var got struct{ Ticket string }
	must(t, json.NewDecoder(res.Body).Decode(&got))
	for _, want := range []int{101, 401} {
		if _, status := dial(t, s.URL()+"/api/v1/ws?ticket="+got.Ticket, nil); status != want {
			t.Errorf("got %d, want %d", status, want)
		}
		accounts.withdrawn.Store(true)
	}
}
