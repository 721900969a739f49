package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// sends sends a request unchanged and returns the answer's status.
func (s *server) sends(request string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	must(s.t, err)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, request); err != nil {
		s.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatalf("%q: %v", request, err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// A host in the request target does not replace the Host header: requests that a page of another site could send are refused.
func TestRequestTarget_WithForeignHostIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, sqlite(t))
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
	own := "Host: " + s.addr + "\r\n"
	for _, test := range []struct {
		target, headers string
		want            int // 0 for anything but 200 and 101
	}{
		{"//127.0.0.1/api/v1/threads?x=://", "Host: evil.example\r\n", 0},
		{"//127.0.0.1/api/v1/threads?x=://", own, 0},
		{"//localhost:13000/api/v1/ws?x=://", own + upgrade + "Origin: http://localhost:13000\r\n", 0},
		{"/api/v1/ws?x=://", own + upgrade + "Origin: http://localhost:13000\r\n", 0},
		{"http://localhost:13000/api/v1/ws", own + upgrade + "Origin: http://localhost:13000\r\n", 0},
		{"http://evil.example/api/v1/threads", own, 0},
		{"http://127.0.0.1/api/v1/threads", "Host: evil.example\r\n", 0},
		{"http://localhost@evil.example/api/v1/threads", own, 0},
		{"/api/v1/threads?x=://", own, http.StatusOK},
		{"http://" + s.addr + "/api/v1/threads", own, http.StatusOK},
		{"/api/v1/ws?x=://", own + upgrade + "Origin: http://" + s.addr + "\r\n", http.StatusSwitchingProtocols},
	} {
		got := s.sends(fmt.Sprintf("GET %s HTTP/1.1\r\n%s\r\n", test.target, test.headers))
		if test.want != 0 && got != test.want || test.want == 0 && (got < 400 || got >= 500) {
			t.Errorf("%s, %q: got %d", test.target, test.headers, got)
		}
	}
}
