package openapi_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestDocumentIsFetchedOnce(t *testing.T) {
	t.Parallel()
	first := get(t, "/openapi.json")
	if first.status != 200 || first.header("Content-Type") != "application/json" || first.header("Cache-Control") != "no-cache" {
		t.Errorf("got %d, %s, %s", first.status, first.header("Content-Type"), first.header("Cache-Control"))
	}
	if got := decode(t, first.body).(object)["info"].(object)["version"]; got != "v1.2.3" {
		t.Errorf("it is of the version %v", got)
	}
	etag := first.header("Etag")
	for _, known := range []string{etag, `"x", ` + etag, "*"} {
		if again := get(t, "/openapi.json", "If-None-Match", known); again.status != 304 || len(again.body) > 0 {
			t.Errorf("who has %s got %d and %d bytes", known, again.status, len(again.body))
		}
	}
	if other := get(t, "/openapi.json", "If-None-Match", `W/"x"`); other.status != 200 {
		t.Errorf("who has another got %d", other.status)
	}
	if other := get(t, "/openapi.json", "If-Modified-Since", "Sat, 01 Jan 2050 00:00:00 GMT"); other.status != 200 {
		t.Errorf("who has it of a day got %d", other.status)
	}
}

// All parts of the page come from this server, and its policy admits nothing else.
func TestPageNeedsNoOtherServer(t *testing.T) {
	t.Parallel()
	page := get(t, "/docs")
	policy := page.header("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %q", policy)
	}
	files := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllSubmatch(page.body, -1)
	if len(files) < 5 {
		t.Fatalf("the page has %d references: %s", len(files), page.body)
	}
	for _, f := range files {
		path := string(f[1])
		if path == "data:," {
			continue
		}
		got := get(t, path)
		if got.status != 200 || len(got.body) == 0 || got.header("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got %d with %d bytes", path, got.status, len(got.body))
		}
		if kind := got.header("Content-Type"); !strings.HasPrefix(kind, "text/") && kind != "application/json" {
			t.Errorf("%s is of the type %q", path, kind)
		}
	}
	for _, own := range []string{"/docs", "/docs/start.js", "/docs/page.css"} {
		if bytes.Contains(get(t, own).body, []byte("//")) && bytes.Contains(get(t, own).body, []byte("http")) {
			t.Errorf("%s names another server", own)
		}
	}
}

func TestPageIsForThoseWhoCannotInflateToo(t *testing.T) {
	t.Parallel()
	const path = "/docs/swagger-ui-bundle.js"
	plain, packed := get(t, path), get(t, path, "Accept-Encoding", "gzip, deflate, br")
	if packed.header("Content-Encoding") != "gzip" || plain.header("Content-Encoding") != "" || !strings.Contains(plain.header("Vary"), "Accept-Encoding") {
		t.Errorf("encoded as %q and %q", packed.header("Content-Encoding"), plain.header("Content-Encoding"))
	}
	r, err := gzip.NewReader(bytes.NewReader(packed.body))
	must(t, err)
	inflated, err := io.ReadAll(r)
	must(t, err)
	if !bytes.Equal(inflated, plain.body) || !bytes.Contains(plain.body, []byte("SwaggerUIBundle")) {
		t.Errorf("got %d and %d bytes", len(inflated), len(plain.body))
	}
}
