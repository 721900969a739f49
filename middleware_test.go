package baton_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
)

// counted is a ResponseWriter like that of middleware: it hides the optional interfaces of the server's own, except by Unwrap.
type counted struct {
	http.ResponseWriter
	n int
}

func (c *counted) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.ResponseWriter.Write(p)
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// behindMiddleware serves s behind middleware. ended gets the path of each request whose handler has returned.
func behindMiddleware(t *testing.T, s *baton.Server) (url string, ended chan string) {
	t.Helper()
	ended = make(chan string, 100)
	h := s.Handler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- r.URL.Path }()
		h.ServeHTTP(&counted{ResponseWriter: w}, r)
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { _ = s.Close() }) // before the HTTP server
	return srv.URL, ended
}

func TestHandler_BehindMiddleware(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{})
	url, _ := behindMiddleware(t, s)
	lines := bufio.NewScanner(send(t, "POST", url+"/api/v1/agent/runs", script, "Accept", "text/event-stream").Body)
	until(t, lines, `"delta":"first"`)
	await(t, s, runtime.Running)
	until(t, lines, "event: RUN_FINISHED")

	c, _ := dial(t, url+"/api/v1/agent/runs/main/ws", nil)
	if _, b, err := c.ReadMessage(); err != nil || !strings.HasPrefix(string(b), `{"id":1,`) {
		t.Errorf("got %s, %v", b, err)
	}
}

// When a client reads nothing of a long stream, the handler returns, and the run ends as without viewers.
func TestHandler_CutsOffStuckClient(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Tuning: baton.Tuning{Timeouts: baton.Timeouts{Ping: 100 * time.Millisecond}}})
	url, ended := behindMiddleware(t, s)
	const much = `{"agent":"scripted","threadId":"main","content":"{\"do\":[{\"tokens\":4000,\"size\":2000}]}"}`
	if res := send(t, "POST", url+"/api/v1/agent/runs", much); res.StatusCode != http.StatusAccepted {
		t.Fatal(res.Status)
	}
	<-ended
	for _, path := range []string{"/api/v1/agent/runs/main/events", "/api/v1/agent/runs/main/ws"} {
		host := strings.TrimPrefix(url, "http://")
		c, err := net.Dial("tcp", host)
		must(t, err)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		head := "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n"
		if strings.HasSuffix(path, "/ws") {
			head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
		}
		if _, err := fmt.Fprint(c, head, "\r\n"); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got != path {
			t.Errorf("%s has ended, want %s", got, path)
		}
		_ = c.Close()
	}
	await(t, s, runtime.Completed)
}

// TestHandler_ReadsChunkedBodies sends a body in chunks, and one that never ends.
func TestHandler_ReadsChunkedBodies(t *testing.T) {
	t.Parallel()
	url, _ := behindMiddleware(t, open(t, baton.Config{Tuning: baton.Tuning{Limits: baton.Limits{Input: 64 << 10}}}))
	post := func(body io.Reader) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/agent/runs", body)
		must(t, err)
		req.Header.Set("Content-Type", fiber.MIMEApplicationJSON)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		_ = res.Body.Close()
		return res.StatusCode
	}
	if got := post(io.MultiReader(strings.NewReader(`{"agent":"echo",`), strings.NewReader(`"content":"hello"}`))); got != http.StatusAccepted {
		t.Errorf("in chunks: %d", got)
	}
	if got := post(endless{}); got != http.StatusRequestEntityTooLarge {
		t.Errorf("endless: %d", got)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
