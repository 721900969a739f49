package baton_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/transports/certs/certstest"
)

func TestTLS_CarriesSockets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certstest.Write(t, dir, "test", time.Now().Add(time.Hour))
	s := open(t, baton.Config{
		Listen: "127.0.0.1:0", Tuning: baton.Tuning{TLS: baton.TLS{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}, Timeouts: baton.Timeouts{OnDisconnectGrace: 50 * time.Millisecond, Ping: 500 * time.Millisecond}},
	})
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool}}
	c, res, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(s.URL(), "https")+"/api/v1/agui/scripted/ws", nil)
	must(t, err)
	defer c.Close()
	_ = res.Body.Close()
	converse(t, s, c)
}

// TestAudit_RecordsAddressAndRequestID sends requests as a trusted proxy, and as another client.
func TestAudit_RecordsAddressAndRequestID(t *testing.T) {
	t.Parallel()
	through(t, func(t *testing.T, door string) {
		for trusted, want := range map[string][2]string{"127.0.0.0/8": {"203.0.113.9", "request-1"}, "10.0.0.0/8": {"127.0.0.1", ""}} {
			s := open(t, baton.Config{Tuning: baton.Tuning{APIKeys: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix(trusted)}}})
			url := doors[door](t, s)
			key, _, err := s.CreateAPIKey(t.Context(), "root", []string{"p1"}, runtime.RoleAdmin, time.Time{})
			must(t, err)
			ask := func(method, path, body string) (http.Header, string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
				must(t, err)
				for name, value := range map[string]string{
					"Authorization": "Bearer " + key, "Content-Type": "application/json",
					"X-Forwarded-For": "127.0.0.1, 203.0.113.9", "X-Request-Id": "request-1",
				} {
					req.Header.Set(name, value)
				}
				client := http.DefaultClient
				if own := clients[url]; own != nil {
					client = own
				}
				res, err := client.Do(req)
				must(t, err)
				defer res.Body.Close()
				text, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode >= 300 {
					t.Fatalf("%s %s: %s %s, %v", method, path, res.Status, text, err)
				}
				return res.Header, string(text)
			}
			header, _ := ask("POST", "/api/v1/agent/runs", `{"agent":"echo","content":"hello"}`)
			request := header.Get("X-Request-Id")
			if want[1] != "" && request != want[1] || want[1] == "" && (request == "" || request == "request-1") {
				t.Errorf("trusting %s: the request's id is %q", trusted, request)
			}
			_, page := ask("GET", "/api/projects/p1/audit?action=start", "")
			if !strings.Contains(page, `"`+want[0]+`"`) || !strings.Contains(page, `"`+request+`"`) {
				t.Errorf("trusting %s: no %s and %s in %s", trusted, want[0], request, page)
			}
		}
	})
}

// Browsers send no credentials with preflight requests.
func TestPreflight_NeedsNoCredential(t *testing.T) {
	t.Parallel()
	const page = "https://app.example.com"
	for _, credentials := range []bool{false, true} {
		s := open(t, baton.Config{Listen: "127.0.0.1:0", Tuning: baton.Tuning{APIKeys: true, Origins: []string{page}, CORSCredentials: credentials}})
		ask := func(method, origin string) (int, http.Header) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+"/api/v1/agent/runs", http.NoBody)
			must(t, err)
			req.Header.Set("Origin", origin)
			if method == http.MethodOptions {
				req.Header.Set("Access-Control-Request-Method", "POST")
				req.Header.Set("Access-Control-Request-Headers", "authorization,idempotency-key,last-event-id,traceparent")
			}
			res, err := http.DefaultClient.Do(req)
			must(t, err)
			_ = res.Body.Close()
			return res.StatusCode, res.Header
		}
		allow := ""
		if credentials {
			allow = "true"
		}
		for method, status := range map[string]int{http.MethodOptions: 204, http.MethodPost: 401} {
			code, header := ask(method, page)
			if got := header.Get("Access-Control-Allow-Credentials"); code != status || got != allow || header.Get("Access-Control-Allow-Origin") != page {
				t.Errorf("%s: got %d with credentials %q, %v", method, code, got, header)
			}
			if got := header.Get("Access-Control-Expose-Headers"); got != "Retry-After, X-Request-Id, Mcp-Session-Id" {
				t.Errorf("%s exposes %q", method, got)
			}
		}
		if code, header := ask(http.MethodOptions, "https://evil.example"); code != 403 || header.Get("Access-Control-Allow-Origin") != "" || header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("a foreign page: %d %v", code, header)
		}
	}
}
