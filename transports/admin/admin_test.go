package admin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/transports/admin"
)

// TestAdminAnswersItsOwnMachine asks everything there is, under names that are the server's and under others.
func TestAdminAnswersItsOwnMachine(t *testing.T) {
	t.Parallel()
	ln, err := admin.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	if addr := ln.Addr().(*net.TCPAddr); !addr.IP.IsLoopback() {
		t.Errorf("without a host other machines reach it: %s", addr)
	}
	well := errors.New("the database is away")
	s := admin.New(admin.Config{
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "baton_runs 1") }),
		Ready:   func(context.Context) error { return well },
		Unwell:  func() []string { return []string{"files: no such program"} },
		Hosts:   []string{"metrics.internal"}, Log: slog.New(slog.DiscardHandler),
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }() // ends with Close
	ask := func(method, path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+ln.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK && (res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Cache-Control") != "no-store") {
			t.Errorf("%s: headers %v", path, res.Header)
		}
		return res.StatusCode, string(text)
	}
	for _, c := range []struct {
		method, path, host string
		status             int
		says               string
	}{
		{"GET", "/metrics", "localhost:9090", 200, "baton_runs 1"},
		{"GET", "/metrics", "METRICS.internal", 200, "baton_runs 1"},
		{"GET", "/metrics", "[::1]:9090", 200, "baton_runs 1"},
		{"GET", "/metrics", "evil.example", 421, "hosts"},
		{"GET", "/debug/pprof/cmdline", "127.0.0.1.evil.example", 421, "hosts"},
		{"GET", "/debug/pprof/", "127.0.0.1", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", "127.0.0.1", 200, "goroutine profile"},
		{"GET", "/healthz", "127.0.0.1", 200, "ok"},
		{"GET", "/readyz", "127.0.0.1", 503, "the database is away"},
		{"POST", "/metrics", "127.0.0.1", 405, ""},
		{"GET", "/api/v1/agents", "127.0.0.1", 404, ""},
	} {
		if status, text := ask(c.method, c.path, c.host); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s of %s: %d %.100q", c.method, c.path, c.host, status, text)
		}
	}
	well = nil
	if status, text := ask("GET", "/readyz", "127.0.0.1"); status != http.StatusOK || text != "ready\nfiles: no such program\n" {
		t.Errorf("once it is well: %d %q", status, text)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := errors.Join(s.Close(), <-served); err != nil {
		t.Error(err)
	}
	if _, err := admin.Listen(t.Context(), "nowhere"); err == nil {
		t.Error("an address without a port is listened on")
	}
}

// A page of somebody else's makes a browser ask for what it shows, scripts and images, without an Origin even.
func TestPagesOfOthersAreNotAnswered(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	ln, err := admin.Listen(t.Context(), ":0")
	if err != nil {
		t.Fatal(err)
	}
	s := admin.New(admin.Config{
		Metrics: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }),
		Ready:   func(context.Context) error { return nil }, Unwell: func() []string { return nil }, Log: slog.New(slog.DiscardHandler),
	})
	go func() { _ = s.Serve(ln) }() // ends with Close
	defer s.Close()
	own := "http://" + ln.Addr().String()
	for _, test := range []struct {
		header [4]string // Origin and Sec-Fetch-Site, -Mode and -Dest
		status int
	}{
		{[4]string{}, 200},
		{[4]string{own, "same-origin", "cors", "empty"}, 200},
		{[4]string{"", "none", "navigate", "document"}, 200},
		{[4]string{"", "cross-site", "navigate", "document"}, 200},
		{[4]string{"", "cross-site", "navigate", "iframe"}, 403},
		{[4]string{"", "cross-site", "no-cors", "image"}, 403},
		{[4]string{"", "same-site", "no-cors", "script"}, 403},
		{[4]string{"http://evil.example", "", "", ""}, 403},
		{[4]string{"null", "", "", ""}, 403},
	} {
		before := asked.Load()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, own+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
			if test.header[i] != "" {
				req.Header.Set(name, test.header[i])
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != test.status || (asked.Load() > before) != (test.status == 200) {
			t.Errorf("%q: got %d, want %d", test.header, res.StatusCode, test.status)
		}
	}
}
