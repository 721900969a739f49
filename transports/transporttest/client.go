package transporttest

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

// Response is a response whose body is read as it arrives.
type Response struct {
	testing.TB
	*http.Response
	LastID string // the Last-Event-ID that a browser would have by now

	in   *bufio.Reader
	conn net.Conn // nil when it came in another way
}

// Do sends a request over its own connection, which lasts until the test's end or for Patience. Header holds pairs of name and
// value; a body is JSON by default.
func (s *Server) Do(method, path, body string, header ...string) *Response {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	s.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr+path, strings.NewReader(body))
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
	var conn net.Conn
	dial := func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return conn, err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true, DialContext: dial}).RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = resp.Body.Close() })
	r := s.Reading(resp)
	r.conn = conn
	return r
}

// Reading makes a Response of an answer that came in another way.
func (s *Server) Reading(resp *http.Response) *Response {
	return &Response{TB: s.TB, Response: resp, in: bufio.NewReader(resp.Body)}
}

// Block returns the next block of an event stream with its empty line, or the rest at the stream's end.
func (r *Response) Block() (string, error) {
	var b strings.Builder
	id := r.LastID
	for {
		line, err := r.in.ReadString('\n')
		b.WriteString(line)
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(v)
		}
		if err != nil {
			return b.String(), err
		}
		if line == "\n" {
			r.LastID = id
			return b.String(), nil
		}
	}
}

// Next returns the next block, which must be there.
func (r *Response) Next() string {
	r.Helper()
	b, err := r.Block()
	if err != nil {
		r.Fatalf("%v after %s", err, Brief(b))
	}
	return b
}

// Line returns the next line of the stream, which must be there.
func (r *Response) Line() string {
	r.Helper()
	line, err := r.in.ReadString('\n')
	if err != nil {
		r.Fatalf("%v after %s", err, Brief(line))
	}
	return line
}

// Until returns the stream up to a block that holds part, and fails at its end.
func (r *Response) Until(part string) string {
	r.Helper()
	for all := ""; ; {
		b := r.Next()
		all += b
		if strings.Contains(b, part) {
			return all
		}
	}
}

// All returns the rest of the body, which must end as it should.
func (r *Response) All() string {
	r.Helper()
	b, err := io.ReadAll(r.in)
	if err != nil {
		r.Fatalf("%v after %s", err, Brief(string(b)))
	}
	return string(b)
}

// Drop closes the connection at once.
func (r *Response) Drop() {
	if r.conn != nil { // else it would be closed soon, and not at once
		_ = r.conn.Close()
	}
	_ = r.Body.Close()
}

// Refused checks that this is an error answer.
func (r *Response) Refused(status int, code string) {
	r.Helper()
	var p transports.Problem
	body := r.All()
	if err := json.Unmarshal([]byte(body), &p); r.StatusCode != status || err != nil || p.Code != code || p.Detail == "" {
		r.Errorf("got %d %s, want %d with the code %s", r.StatusCode, body, status, code)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		r.Errorf("got the Content-Type %q", got)
	}
}

// Brief is a stream's end, for messages.
func Brief(s string) string {
	if len(s) > 2000 {
		return "…" + s[len(s)-2000:]
	}
	return s
}

// Dial connects a client that speaks for itself, from request on.
func (s *Server) Dial(request string) *net.TCPConn {
	s.Helper()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(Patience))
	if _, err := io.WriteString(c, request); err != nil {
		s.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// Sockets is the number of open sockets of this process. It skips the test where that is unknown.
func Sockets(tb testing.TB) (n int) {
	tb.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Skip(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
