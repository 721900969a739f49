package transports_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/auth"
)

func TestAnswersSayWhatBrowsersMayDoWithThem(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{})
	for _, a := range []answer{
		s.do("GET", "/ok", nil), s.do("GET", "/healthz", nil), s.do("GET", "/nowhere", nil), s.do("GET", "/unknown", nil), s.do("GET", "/panic", nil),
		s.do("GET", "/ok", nil, "Host", "evil.example"), s.do("POST", "/small", strings.NewReader("x")), s.do("GET", "/stream/empty", nil),
		s.do("FROB", "/ok", nil), s.do("GET", "/ok", nil, "Cookie", strings.Repeat("x", 20_000)), // of these no handler knows
	} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if name == "Cache-Control" && strings.HasPrefix(a.to, "GET /stream/") {
				want = "no-cache, no-transform" // so that what stands between passes it on at once, and does not gather it to compress it
			}
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", a.to, name, got, want)
			}
		}
		if a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s has no id", a.to)
		}
	}
}

func TestRequestsHaveIDs(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.Config{Proxies: auth.Proxies{netip.MustParsePrefix("127.0.0.0/8")}})
	if got := serve(t, transports.Config{}).do("GET", "/ok", nil, "X-Request-Id", "forged").header.Get("X-Request-Id"); got == "forged" || got == "" {
		t.Errorf("who is no proxy calls its request %q", got)
	}
	for sent, kept := range map[string]bool{
		"abc-DEF_1.2": true, "": false, "a b": false, "a;b": false, "\u00e9": false, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		got := s.do("GET", "/panic", nil, "X-Request-Id", sent)
		id := got.header.Get("X-Request-Id")
		if (id == sent) != kept || id == "" || got.status != http.StatusInternalServerError || !strings.Contains(got.body, id) || !strings.Contains(s.log.String(), id) {
			t.Errorf("%q: got %q, %s", sent, id, got.body)
		}
	}
}
