package transports_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
	"github.com/batonrun/baton/transports/certs"
	"github.com/batonrun/baton/transports/certs/certstest"
	"github.com/batonrun/baton/transports/stream"
)

// both runs fn with a server of plain HTTP and with one of TLS.
func both(t *testing.T, cfg transports.Config, fn func(t *testing.T, s *server)) {
	t.Helper()
	t.Run("http", func(t *testing.T) { fn(t, serve(t, cfg)) })
	t.Run("https", func(t *testing.T) { fn(t, serveTLS(t, cfg, transports.StreamConfig{})) })
}

// serveTLS is serveWith of a server that speaks TLS.
func serveTLS(tb testing.TB, cfg transports.Config, streams transports.StreamConfig, mounts ...transports.Mounter) *server {
	tb.Helper()
	dir := tb.TempDir()
	pool := certstest.Write(tb, dir, "test", time.Now().Add(time.Hour))
	files, err := certs.Load(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), slog.Default())
	must(tb, err)
	cfg.TLS = files.Config()
	s := serveWith(tb, cfg, streams, mounts...)
	s.tls = &tls.Config{RootCAs: pool, ServerName: "localhost"}
	return s
}

func TestTLSIsSpokenAndNothingOlder(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, transports.Config{}, transports.StreamConfig{})
	if a := s.do("GET", "/ok", nil); a.status != 200 || a.header.Get("Strict-Transport-Security") != "" {
		t.Errorf("got %d with %v", a.status, a.header)
	}
	large := strings.NewReader("[" + strings.Repeat(" ", 1<<20) + "]")
	if a := s.do("POST", "/small", large, "Content-Type", "application/json"); a.status != 200 || a.body != fmt.Sprint(1<<20+2) {
		t.Errorf("a large body: got %d %s", a.status, a.body)
	}
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		cfg := s.tls.Clone()
		cfg.MinVersion, cfg.MaxVersion, cfg.NextProtos = version, version, []string{"h2", "http/1.1"}
		c, err := tls.Dial("tcp", s.Addr, cfg)
		if (err == nil) != want {
			t.Errorf("%s: got %v", tls.VersionName(version), err)
		}
		if err == nil {
			if got := c.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
				t.Errorf("agreed on %q", got)
			}
			_ = c.Close()
		}
	}
}

func TestPlainRequestIsToldToSpeakTLS(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, transports.Config{}, transports.StreamConfig{})
	c, err := net.Dial("tcp", s.Addr)
	must(t, err)
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "https://") {
		t.Errorf("got %s %s, %v", resp.Status, body, err)
	}
}

// A handshake that does not get on ends, though bytes of it come again and again.
func TestHandshakeHasADeadline(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, transports.Config{HeadTimeout: 300 * time.Millisecond}, transports.StreamConfig{})
	c, err := net.Dial("tcp", s.Addr)
	must(t, err)
	defer c.Close()
	_, _ = c.Write([]byte{22, 3, 1, 2, 0}) // a record of 512 bytes will follow
	until(t, "the connection is closed", func() bool {
		_, err := c.Write([]byte{1})
		return err != nil
	})
}

// Connections count from when they are accepted: those that do not even begin a handshake make room for others.
func TestConnectionsAreCappedOverTLS(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, transports.Config{Conns: 20, PeerConns: 10, HeadTimeout: time.Hour}, transports.StreamConfig{})
	for range 50 {
		c, err := net.Dial("tcp", s.Addr)
		must(t, err)
		defer c.Close()
	}
	if a := s.do("GET", "/ok", nil); a.status != 200 {
		t.Errorf("got %d", a.status)
	}
}

// A proxy that is trusted has many clients' connections.
func TestTrustedProxiesMayHaveAllConnections(t *testing.T) {
	t.Parallel()
	for trusted, want := range map[string]int{"127.0.0.1/32": 9, "10.0.0.0/8": 4} {
		s := serve(t, transports.Config{Conns: 20, PeerConns: 4, Proxies: auth.Proxies{netip.MustParsePrefix(trusted)}})
		var open int
		for range 9 {
			_, in := s.dial("GET /stream/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if line, err := in.ReadString('\n'); err == nil && strings.Contains(line, "200") {
				open++
			}
		}
		if open != want {
			t.Errorf("trusting %s: %d streams of one address are open, want %d", trusted, open, want)
		}
	}
}

// A client that leaves is found out about though nothing is written: a stream's, and one that waits for an answer.
func TestClientThatLeavesEndsWhatItAskedFor(t *testing.T) {
	t.Parallel()
	for name, close := range map[string]func(net.Conn){
		"with a goodbye": func(c net.Conn) { _ = c.Close() },
		"without":        func(c net.Conn) { _ = c.(*tls.Conn).NetConn().Close() },
	} {
		asked, ended := make(chan struct{}, 1), make(chan error, 1)
		s := serveTLS(t, transports.Config{}, transports.StreamConfig{Ping: time.Hour}, mount(func(r *table) {
			r.Get("/long", func(c *fiber.Ctx) error {
				asked <- struct{}{}
				<-c.UserContext().Done()
				ended <- context.Cause(c.UserContext())
				return nil
			})
		}))
		c, in := s.dial("GET /stream/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := in.ReadString('t'); err != nil {
			t.Fatal(err)
		}
		until(t, "a stream is open", func() bool { return s.Streams.Open() == 1 })
		close(c)
		until(t, name+": no stream is open", func() bool { return s.Streams.Open() == 0 })

		c, _ = s.dial("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n")
		<-asked
		close(c)
		if err := <-ended; !errors.Is(err, stream.ErrGone) {
			t.Errorf("%s: a request ended with %v", name, err)
		}
	}
}

// A client that takes nothing is cut off, and others are pinged meanwhile.
func TestSlowTakerIsCutOffOverTLS(t *testing.T) {
	t.Parallel()
	var s *server
	flood := mount(func(r *table) {
		r.Get("/flood", func(c *fiber.Ctx) error {
			return s.Streams.Serve(c, func(_ context.Context, w *stream.Writer) error {
				for {
					if _, err := w.WriteString(frame(32 << 10)); err != nil {
						return err
					}
					if err := w.Flush(); err != nil {
						return err
					}
				}
			})
		})
	})
	s = serveTLS(t, transports.Config{}, transports.StreamConfig{Ping: 150 * time.Millisecond, WriteTimeout: time.Second}, flood)
	_, in := s.dial("GET /stream/wait HTTP/1.1\r\nHost: localhost\r\n\r\n")
	s.dial("GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n")
	until(t, "one is cut off", func() bool { return s.Streams.Stats().Cut == 1 })
	for range 3 {
		for line := ""; line != "event: keepalive\n"; {
			var err error
			if line, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.Streams.Open(); n != 1 {
		t.Errorf("%d streams are open, want the one that is read", n)
	}
}

// An Authenticator sees that a request came over TLS.
func TestAuthenticatorSeesTLS(t *testing.T) {
	t.Parallel()
	seen := make(chan *tls.ConnectionState, 1)
	s := serveTLS(t, transports.Config{Accounts: auth.AuthenticatorFunc(func(r *http.Request) (auth.Identity, error) {
		seen <- r.TLS
		return auth.Identity{User: "u", Projects: []string{"p"}, Role: runtime.RoleUser}, nil
	})}, transports.StreamConfig{})
	if a := s.do("GET", "/ok", nil); a.status != 200 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if state := <-seen; state == nil || !state.HandshakeComplete {
		t.Errorf("got %v", state)
	}
}
