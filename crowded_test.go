//go:build unix

package baton_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
)

// The audit log has no entries for impossible names, on each database.
func TestAudit_OfImpossibleNames(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, database string) {
		s := openWithKeys(t, database)
		root, _ := ofRole(t, s, "root", runtime.RoleAdmin, "p1")
		user, _ := newKey(t, s, "alice", time.Time{})
		for _, name := range []string{"actor", "action", "user", "run"} {
			for _, odd := range []string{"%ff", "%00", "a%c0%80", "%ed%a0%80"} {
				at := s.URL() + "/api/projects/p1/audit?" + name + "=" + odd
				res := send(t, "GET", at, "", "Authorization", root)
				var page struct{ Items []json.RawMessage }
				if text := answer(t, res); res.StatusCode != http.StatusOK || json.Unmarshal([]byte(text), &page) != nil || len(page.Items) != 0 {
					t.Errorf("%s=%s: %s %s", name, odd, res.Status, text)
				}
				if got := status(t, "GET", at, "Authorization", user); got != 403 {
					t.Errorf("%s=%s of a user: %d", name, odd, got)
				}
			}
		}
	})
}

// Clients that do not read the server's own files take only the memory of their connections.
func TestOwnFiles_TakeNoMemoryPerClient(t *testing.T) {
	t.Parallel()
	s := bounded(t, baton.Adjust(withKeys(baton.Limits{}), func(c *transports.StreamConfig) { c.InFlight = 2 << 20 }))
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) { // with a small receive buffer
		ctl := c.Control(func(fd uintptr) {
			err = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 2<<10),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 536),
			)
		})
		return errors.Join(ctl, err)
	}}
	alice, _ := newKey(t, s, "alice", time.Time{})
	for n := range 40 {
		c, err := narrow.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
		must(t, err)
		defer c.Close()
		_, _ = fmt.Fprintf(c, "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n%s\r\n", []string{"", "Accept-Encoding: gzip\r\n"}[n%2])
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
			t.Fatal(line, err)
		}
	}
	body := `{"agent":"echo","content":"` + strings.Repeat("x", 200<<10) + `"}`
	if res := send(t, "POST", s.URL()+"/api/v1/agent/runs", body, "Authorization", alice); res.StatusCode != http.StatusAccepted {
		t.Errorf("beside them: %s %s", res.Status, answer(t, res))
	}
}

// Malformed commands count towards the rate limit. A socket that sends too many gets answers, but slower than it sends.
func TestRateLimit_CountsMalformedCommands(t *testing.T) {
	t.Parallel()
	s := bounded(t, withKeys(baton.Limits{RequestsPerUser: 1}))
	alice, _ := newKey(t, s, "alice", time.Time{})
	c, _ := dial(t, s.URL()+"/api/v1/ws", http.Header{"Authorization": {alice}})
	began, refused := time.Now(), 0
	for n := range 20 {
		must(t, c.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"op":"nope","ref":%d}`, n)))
	}
	for n := range 20 {
		var got struct {
			Ref  int
			Code string
		}
		if err := c.ReadJSON(&got); err != nil || got.Ref != n {
			t.Fatal(got, err)
		}
		if got.Code == "rate_limited" {
			refused++
		}
	}
	if took := time.Since(began); refused < 10 || took < time.Duration(refused-1)*100*time.Millisecond {
		t.Errorf("%d of 20 commands were refused, in %v", refused, took)
	}
}
