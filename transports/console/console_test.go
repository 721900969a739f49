package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"

	"github.com/batonrun/baton/transports/console"
)

// open returns an app with the console, behind which everything is answered with 418.
func open(t *testing.T) *fiber.App {
	t.Helper()
	shown, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New()
	for _, r := range shown.Routes() {
		app.Add(r.Method, r.Path, r.Public)
	}
	app.Use(func(c *fiber.Ctx) error { return c.SendStatus(http.StatusTeapot) })
	return app
}

type answer struct {
	*http.Response
	body string
}

func get(t *testing.T, app *fiber.App, path string, header ...string) answer {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := app.Test(req, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res, string(body)}
}

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

// A page that is loaded anew is where it was; programs get what they got without a console.
func TestPagesAreForBrowsers(t *testing.T) {
	t.Parallel()
	app := open(t)
	for _, path := range []string{"/", "/runs", "/runs/", "/runs/a%2Fb?user=x", "/compare?one=a&other=b", "/threads/1", "/playground/echo", "/agents/tools/clock", "/waiting", "/admin/audit", "/p/other/runs/1"} {
		if got := get(t, app, path, "Accept", browser); got.StatusCode != http.StatusOK || !strings.Contains(got.body, `id="root"`) {
			t.Errorf("%s: a browser gets %d, %q", path, got.StatusCode, got.body)
		}
		for _, accept := range []string{"application/json", "text/html;q=0", "text/html; q=0.0, */*", "application/json, text/html;q=0.9", "*/*", ""} {
			got := get(t, app, path, "Accept", accept)
			if got.StatusCode != http.StatusTeapot || got.Header.Get("Vary") != "Accept" {
				t.Errorf("%s: a program that takes %q gets %d, which varies by %q", path, accept, got.StatusCode, got.Header.Get("Vary"))
			}
		}
	}
	for _, path := range []string{"/api/v1/agents", "/openapi.json", "/nowhere", "/run"} {
		if got := get(t, app, path, "Accept", browser); got.StatusCode != http.StatusTeapot {
			t.Errorf("%s is answered by the console with %d", path, got.StatusCode)
		}
	}
}

// The policy admits this server alone, and no script in the page.
func TestPageNeedsNoOtherServer(t *testing.T) {
	t.Parallel()
	app := open(t)
	page := get(t, app, "/", "Accept", browser)
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %q", policy)
	}
	if scripts := regexp.MustCompile(`(?s)<script[^>]*>(.+?)</script>`).FindAllString(page.body, -1); len(scripts) > 0 {
		t.Errorf("scripts stand in the page: %q", scripts)
	}
	files := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.body, -1)
	if len(files) < 3 {
		t.Fatalf("the page has %d references: %s", len(files), page.body)
	}
	for _, f := range files {
		got := get(t, app, f[1])
		if !strings.HasPrefix(f[1], "/assets/") || got.StatusCode != http.StatusOK || !strings.Contains(got.Header.Get("Cache-Control"), "immutable") {
			t.Errorf("%s: got %d, %q", f[1], got.StatusCode, got.Header.Get("Cache-Control"))
		}
		again := get(t, app, f[1], "If-None-Match", got.Header.Get("Etag"), "Accept-Encoding", "gzip")
		if again.StatusCode != http.StatusNotModified || again.body != "" {
			t.Errorf("%s again: %d", f[1], again.StatusCode)
		}
	}
	if got := get(t, app, "/assets/none.js"); got.StatusCode != http.StatusNotFound {
		t.Errorf("a file that is not there: %d", got.StatusCode)
	}
}
