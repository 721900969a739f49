package auth_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/batonrun/baton/transports/auth"
)

// TestPeerIsWhoTrustedProxiesSay: what proxies say counts, what anybody has written before them does not.
func TestPeerIsWhoTrustedProxiesSay(t *testing.T) {
	t.Parallel()
	proxies := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::5/128")}
	for name, c := range map[string]struct {
		from    string
		headers []string
		address string
		url     string
		request string
	}{
		"nobody's proxy": {"192.0.2.1", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example", "X-Request-Id", "forged"}, "192.0.2.1", "http://internal", ""},
		"a proxy":        {"10.1.1.1", []string{"X-Forwarded-For", "203.0.113.9", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example", "X-Request-Id", "id-1"}, "203.0.113.9", "https://app.example", "id-1"},
		"of version 6":   {"fd00::5", []string{"X-Forwarded-For", "[2001:db8::1]:4711"}, "2001:db8::1", "http://internal", ""},
		"its neighbour":  {"fd00::6", []string{"X-Forwarded-For", "2001:db8::1"}, "fd00::6", "http://internal", ""},
		"spoofed":        {"10.1.1.1", []string{"X-Forwarded-For", "127.0.0.1, 198.51.100.1,203.0.113.9"}, "203.0.113.9", "http://internal", ""},
		"two proxies":    {"10.1.1.1", []string{"X-Forwarded-For", "127.0.0.1, 203.0.113.9, 10.2.2.2"}, "203.0.113.9", "http://internal", ""},
		"two headers":    {"10.1.1.1", []string{"X-Forwarded-For", "127.0.0.1", "X-Forwarded-For", "203.0.113.9"}, "203.0.113.9", "http://internal", ""},
		"mapped":         {"::ffff:10.1.1.1", []string{"X-Forwarded-For", "::ffff:203.0.113.9"}, "203.0.113.9", "http://internal", ""},
		"only proxies":   {"10.1.1.1", []string{"X-Forwarded-For", "10.3.3.3, 10.2.2.2"}, "10.3.3.3", "http://internal", ""},
		"nonsense":       {"10.1.1.1", []string{"X-Forwarded-For", "203.0.113.9, unknown"}, "10.1.1.1", "http://internal", ""},
		"says nothing":   {"10.1.1.1", []string{"X-Forwarded-For", ""}, "10.1.1.1", "http://internal", ""},
		"another scheme": {"10.1.1.1", []string{"X-Forwarded-Proto", "javascript"}, "10.1.1.1", "http://internal", ""},
		"proxied scheme": {"10.1.1.1", []string{"X-Forwarded-Proto", "http, HTTPS"}, "10.1.1.1", "https://internal", ""},
		"lists of two proxies": {
			"10.1.1.1",
			[]string{"X-Forwarded-For", "203.0.113.9, 10.2.2.2", "X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "app.example, internal"},
			"203.0.113.9", "https://app.example", "",
		},
		"lists that begin with forgeries": {
			"10.1.1.1",
			[]string{"X-Forwarded-For", "127.0.0.1, 203.0.113.9", "X-Forwarded-Proto", "https, http", "X-Forwarded-Host", "app.example, internal:1"},
			"203.0.113.9", "http://internal:1", "",
		},
		"a proxy that adds to one list": {
			"10.1.1.1", []string{"X-Forwarded-For", "203.0.113.9, 10.2.2.2", "X-Forwarded-Proto", "https"}, "203.0.113.9", "https://internal", "",
		},
		"a foreign host": {"10.1.1.1", []string{"X-Forwarded-Host", "evil.example"}, "10.1.1.1", "http://internal", ""},
		"a port of no digits": {
			"10.1.1.1", []string{"X-Forwarded-Host", "app.example:1@evil.example"}, "10.1.1.1", "http://internal", "",
		},
		"a path for a port":  {"10.1.1.1", []string{"X-Forwarded-Host", "app.example:80/evil"}, "10.1.1.1", "http://internal", ""},
		"a name in brackets": {"10.1.1.1", []string{"X-Forwarded-Host", "[app.example]"}, "10.1.1.1", "http://internal", ""},
		"a port":             {"10.1.1.1", []string{"X-Forwarded-Host", "App.example:8443"}, "10.1.1.1", "http://App.example:8443", ""},
		"no name":            {"10.1.1.1", []string{"X-Request-Id", "a b\r"}, "10.1.1.1", "http://internal", ""},
	} {
		t.Run(name, func(t *testing.T) {
			app := fiber.New()
			app.Use(proxies.Handler(func(*fiber.Ctx) bool { return false }), auth.Browser{Hosts: []string{"internal", "app.example"}}.Handler())
			var got auth.Peer
			url := ""
			app.Get("/", func(c *fiber.Ctx) error {
				got, url = auth.PeerOf(c), auth.AskedURL(c)
				return nil
			})
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(c.from), Port: 4711}, nil)
			ctx.Request.SetRequestURI("/")
			ctx.Request.Header.SetHost("internal")
			for i := 0; i < len(c.headers); i += 2 {
				ctx.Request.Header.Add(c.headers[i], c.headers[i+1])
			}
			app.Handler()(&ctx)
			if got.Address.String() != c.address || url != c.url {
				t.Errorf("got %s and %s, want %s and %s", got.Address, url, c.address, c.url)
			}
			if c.request != "" && got.Request != c.request || got.Request == "forged" || got.Request == "" {
				t.Errorf("the request is called %q, want %q", got.Request, c.request)
			}
		})
	}
}

// TestHostsAreNames asks for a name of the server's with something else behind it, where a URL would lead to that.
func TestHostsAreNames(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]int{
		"internal": 200, "INTERNAL:80": 200, "internal:": 200, "[::1]:80": 200, "[::1]": 200,
		"internal:1@evil.example": 421, "localhost:1@evil.example": 421, "internal:80/evil": 421, "internal:80:80": 421,
		"[internal]": 421, "[::1": 421, "[::1]evil": 421, "127.0.0.1:x": 421, ":80": 421,
	} {
		app := fiber.New()
		app.Use(auth.Browser{Hosts: []string{"internal"}}.Handler())
		app.Get("/", func(*fiber.Ctx) error { return nil })
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711}, nil)
		ctx.Request.SetRequestURI("/")
		ctx.Request.Header.SetHost(host)
		app.Handler()(&ctx)
		if got := ctx.Response.StatusCode(); got != want {
			t.Errorf("Host %q: got %d, want %d", host, got, want)
		}
	}
}

// A page of the other scheme is another's: over plain HTTP anybody on the way may have written it.
func TestBrowser_AnotherSchemeIsAnotherOrigin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		secure  bool
		from    string
		proto   string
		origins map[string]int
	}{
		"plain":                   {false, "192.0.2.1", "", map[string]int{"http://internal": 200, "https://internal": 403}},
		"TLS":                     {true, "192.0.2.1", "", map[string]int{"http://internal": 403, "https://internal": 200}},
		"what anybody says":       {false, "192.0.2.1", "https", map[string]int{"http://internal": 200, "https://internal": 403}},
		"what a proxy says":       {false, "10.1.1.1", "https", map[string]int{"http://internal": 403, "https://internal": 200}},
		"a proxy without TLS":     {false, "10.1.1.1", "http", map[string]int{"http://internal": 200, "https://internal": 403}},
		"a proxy of few words":    {false, "10.1.1.1", "", map[string]int{"http://internal": 200, "https://internal": 403}},
		"a proxy that speaks TLS": {true, "10.1.1.1", "", map[string]int{"http://internal": 403, "https://internal": 200}},
	} {
		for origin, want := range c.origins {
			app := fiber.New()
			proxies := auth.Proxies{netip.MustParsePrefix("10.0.0.0/8")}
			app.Use(proxies.Handler(func(*fiber.Ctx) bool { return c.secure }), auth.Browser{Hosts: []string{"internal"}}.Handler())
			app.Get("/", func(*fiber.Ctx) error { return nil })
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.ParseIP(c.from), Port: 4711}, nil)
			ctx.Request.SetRequestURI("/")
			ctx.Request.Header.SetHost("internal")
			ctx.Request.Header.Set("Origin", origin)
			if c.proto != "" {
				ctx.Request.Header.Set("X-Forwarded-Proto", c.proto)
			}
			app.Handler()(&ctx)
			if got := ctx.Response.StatusCode(); got != want {
				t.Errorf("%s, Origin %s: got %d, want %d", name, origin, got, want)
			}
			if body := string(ctx.Response.Body()); want == 403 && !strings.Contains(body, "trusted_proxies") {
				t.Errorf("%s, Origin %s: the refusal names no trusted_proxies: %s", name, origin, body)
			}
		}
	}
}

// Browsers leave a scheme's own port out of an Origin; a proxy may send it in Host.
func TestBrowser_OwnPortOfASchemeMayBeLeftOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secure       bool
		host, origin string
		want         int
	}{
		{false, "internal:80", "http://internal", 200},
		{true, "internal:443", "https://internal", 200},
		{true, "[::1]:443", "https://[::1]", 200},
		{true, "internal", "https://internal:443", 200},
		{false, "internal:443", "http://internal", 403},
		{true, "internal:80", "https://internal", 403},
		{true, "internal:8443", "https://internal", 403},
	} {
		app := fiber.New()
		app.Use(auth.Proxies{}.Handler(func(*fiber.Ctx) bool { return c.secure }), auth.Browser{Hosts: []string{"internal"}}.Handler())
		app.Get("/", func(*fiber.Ctx) error { return nil })
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}, nil)
		ctx.Request.SetRequestURI("/")
		ctx.Request.Header.SetHost(c.host)
		ctx.Request.Header.Set("Origin", c.origin)
		app.Handler()(&ctx)
		if got := ctx.Response.StatusCode(); got != c.want {
			t.Errorf("Host %s, Origin %s: got %d, want %d", c.host, c.origin, got, c.want)
		}
	}
}
