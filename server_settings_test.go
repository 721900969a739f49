package baton_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/transports"
)

// A client that does not finish its request loses its connection after the timeout of its server, not after the default.
func TestRequestTimeouts(t *testing.T) {
	t.Parallel()
	const short = 200 * time.Millisecond
	const post = "POST /api/v1/agent/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		shorten func(*transports.Config)
		sent    string
	}{
		"a head":      {func(c *transports.Config) { c.HeadTimeout = short }, "GET /healthz HTTP/1.1\r\n"},
		"a body":      {func(c *transports.Config) { c.ReadTimeout = short }, post + "Content-Length: 1000\r\n\r\n{"},
		"a stall":     {func(c *transports.Config) { c.Slack = short }, post + "Content-Length: 1000\r\n\r\n{"},
		"between two": {func(c *transports.Config) { c.IdleTimeout = short }, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			patient := knock(t, open(t, baton.Config{Listen: "127.0.0.1:0"}))
			fmt.Fprint(patient, c.sent)
			hasty := knock(t, open(t, baton.Adjust(baton.Config{Listen: "127.0.0.1:0"}, c.shorten)))
			fmt.Fprint(hasty, c.sent)
			ended(hasty)
			_ = patient.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if ended(patient) {
				t.Error("a server with the defaults has closed the connection before")
			}
		})
	}
}

// knock opens a connection to a server.
func knock(t *testing.T, s *baton.Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ended reads until the end, and reports whether the server has closed the connection.
func ended(c net.Conn) bool {
	in := bufio.NewReader(c)
	for {
		_, err := in.ReadByte()
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return false
		}
		if err != nil {
			return true
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*transports.Config){
		"of all":      func(c *transports.Config) { c.Conns, c.PeerConns = 3, 100 },
		"of one peer": func(c *transports.Config) { c.Conns, c.PeerConns = 100, 3 },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, baton.Adjust(baton.Config{Listen: "127.0.0.1:0"}, limit))
			opened := 0
			for range 8 {
				c := knock(t, s)
				fmt.Fprint(c, "GET /api/v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
					"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
				if line, _ := bufio.NewReader(c).ReadString('\n'); strings.Contains(line, "101") {
					opened++
				}
			}
			if opened != 3 {
				t.Errorf("%d of 8 sockets are open, want 3", opened)
			}
		})
	}
}

func TestInFlight_IsBounded(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Adjust(baton.Config{Listen: "127.0.0.1:0"}, func(c *transports.StreamConfig) { c.InFlight = 64 << 10 }))
	body := `{"agent":"echo","content":"` + strings.Repeat("x", 256<<10) + `"}`
	if res := send(t, http.MethodPost, "http://"+s.Addr()+"/api/v1/agent/runs", body); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a request of four times the limit gets %d", res.StatusCode)
	}
}
