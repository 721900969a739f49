package natsbus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/bus/bustest"
	"github.com/batonrun/baton/runtime/bus/natsbus"
	"github.com/batonrun/baton/runtime/bus/natsbus/natstest"
	"github.com/batonrun/baton/storage/storagetest"
	"github.com/batonrun/baton/transports/certs/certstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parsed(t *testing.T, url string) *natsbus.Servers {
	t.Helper()
	s, err := natsbus.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// busTo returns a bus that is closed at the end.
func busTo(t *testing.T, s *natsbus.Servers, database string) *natsbus.Bus {
	t.Helper()
	b := s.Bus(database, slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestBus_IsABus(t *testing.T) {
	t.Parallel()
	s := parsed(t, natstest.Start(t, "").URL)
	bustest.Contract(t, func() bus.Bus { return busTo(t, s, "db") })
}

// A connection that is cut, silent or refused is replaced for as long as it takes, and the receiver learns that datagrams may be lost.
func TestBus_ConnectsAgain(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, "")
	p, through := storagetest.NewProxy(t, server.URL)
	b := busTo(t, parsed(t, through), "db")
	if err := b.Send(t.Context(), []byte("x")); !errors.Is(err, bus.ErrCut) {
		t.Errorf("send before it is connected: %v, want ErrCut", err)
	}
	bustest.Passes(t, b)
	for what, disturb := range map[string]func(){
		"cut":     func() { p.Cut(); p.Restore() },
		"restart": func() { server.Kill(); server.Launch() },
		"silent":  func() { p.Silent.Store(true); <-time.After(time.Second); p.Cut(); p.Restore() },
	} {
		disturb()
		if errs := bustest.Passes(t, b); len(errs) == 0 || !errors.Is(errors.Join(errs...), bus.ErrCut) {
			t.Errorf("%s: %v, want ErrCut", what, errs)
		}
	}
	server.Kill()
	for range 3 {
		if _, err := b.Receive(t.Context()); err == nil {
			t.Error("it receives from a server that is gone")
		}
	}
	server.Launch()
	bustest.Passes(t, b)
}

// The bus closes the connection to a NATS server that stops answering, even if TCP reports no error.
func TestBus_GivesUpSilentConnections(t *testing.T) {
	t.Parallel()
	p, through := storagetest.NewProxy(t, natstest.Start(t, "").URL)
	b := busTo(t, parsed(t, through), "db")
	bustest.Passes(t, b)
	p.Silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := b.Receive(ctx); !errors.Is(err, bus.ErrCut) || !errors.Is(err, nats.ErrStaleConnection) {
		t.Errorf("%v, want ErrCut and ErrStaleConnection", err)
	}
}

// Databases that share a NATS server do not hear each other, and a server's last hints are sent.
func TestBus_IsOfOneDatabase(t *testing.T) {
	t.Parallel()
	s := parsed(t, natstest.Start(t, "").URL)
	a, b, other := busTo(t, s, "db"), busTo(t, s, "db"), busTo(t, s, "other")
	for _, b := range []bus.Bus{a, b, other} {
		bustest.Passes(t, b)
	}
	if err := errors.Join(a.Send(t.Context(), []byte("last")), a.Close()); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != "last"; {
		datagram, err := b.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = string(datagram)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if got, err := other.Receive(ctx); err == nil && !strings.HasPrefix(string(got), "own ") {
		t.Errorf("another database hears %q", got)
	}
}

// A stranger that floods the subject costs bounded memory, and the receiver learns that datagrams may be lost.
func TestBus_DropsFloods(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, "")
	b := busTo(t, parsed(t, server.URL), "db")
	bustest.Passes(t, b)
	stranger, err := nats.Connect(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	const flood = 200 // MB
	for range flood {
		if err := stranger.Publish("baton.db", make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stranger.Flush(); err != nil {
		t.Fatal(err)
	}
	received, cut := 0, false
	for !cut {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := b.Receive(ctx)
		cancel()
		switch cut = errors.Is(err, bus.ErrCut); {
		case err == nil:
			received++
		case !cut:
			t.Fatalf("after %d datagrams: %v", received, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for ; err == nil; received++ {
		_, err = b.Receive(ctx)
	}
	if received > flood/2 { // some have arrived while others were received
		t.Errorf("%d MB of a flood were kept", received)
	}
	bustest.Passes(t, b)
}

// log collects a log.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A failure is logged once, without a password, until datagrams arrive again.
func TestBus_LogsWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, `authorization { users = [
		{user: baton, password: s3cret, permissions: {publish: "baton.>", subscribe: "baton.>"}}
		{user: mute, password: s3cret, permissions: {publish: "other", subscribe: "baton.>"}}
		{user: deaf, password: s3cret, permissions: {publish: "baton.>", subscribe: "other"}}
	]}`)
	as := func(user string) string { return strings.Replace(server.URL, "//", "//"+user+"@", 1) }
	for _, test := range []struct{ user, want string }{
		{"baton:wr0ng", "Authorization Violation"},
		{"mute:s3cret", "Permissions Violation for Publish"},
		{"deaf:s3cret", "Permissions Violation for Subscription"},
	} {
		var l log
		b := parsed(t, as(test.user)).Bus("db", slog.New(slog.NewTextHandler(&l, nil)))
		for range 2 {
			for failed := false; !failed; {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				_ = b.Send(ctx, []byte("x"))
				_, err := b.Receive(ctx)
				failed = err != nil && ctx.Err() == nil
				cancel()
			}
		}
		if got := l.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, test.want) || strings.Contains(got, "s3cret") || strings.Contains(got, "wr0ng") {
			t.Errorf("%s: the log is %s", test.user, got)
		}
		if _, err := parsed(t, as(test.user)).Reach(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Reach returns %v", test.user, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if took, err := parsed(t, as("baton:s3cret")).Reach(t.Context()); err != nil || took <= 0 {
		t.Errorf("Reach returns %v, %v", took, err)
	}
	bustest.Passes(t, busTo(t, parsed(t, as("baton:s3cret")), "db"))
}

// Servers may demand certificates, and are trusted by theirs.
func TestBus_SpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certstest.Write(t, dir, "test", time.Now().Add(time.Hour))
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	server := natstest.Start(t, "tls {cert_file: '"+cert+"', key_file: '"+key+"', ca_file: '"+cert+"', verify: true}")
	secure := strings.Replace(server.URL, "nats:", "tls:", 1)
	bustest.Passes(t, busTo(t, parsed(t, secure+"?ca="+cert+"&cert="+cert+"&key="+key), "db"))
	for url, want := range map[string]string{secure: "unknown authority", secure + "?ca=" + cert: "tls"} {
		if _, err := parsed(t, url).Reach(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", url, err, want)
		}
	}
}

func TestParse_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"nats://a:4222,tls://u:p@b":     "",
		"nats://a?ca=" + empty:          "",
		"":                              "want a URL such as",
		"nats://a,":                     "want a URL such as",
		"http://s3cret@a":               "want a URL such as",
		"nats://u:s3c/ret@a":            "want a URL such as",
		"nats://a/path":                 "want a URL such as",
		"nats://a?password=s3cret":      `unknown parameter "password"; there are creds, ca, cert and key`,
		"nats://u:s3cret@a?creds=/gone": "creds: open /gone: no such file",
		"nats://a?cert=" + empty:        "set both cert and key",
	} {
		_, err := natsbus.Parse(url)
		if got := fmt.Sprint(err); !strings.Contains(got, want) || (want == "") != (err == nil) || strings.Contains(got, "s3c") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
