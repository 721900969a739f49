package baton_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton"
)

// With accounts, only these routes answer requests without a credential. Anybody can read the answers of routes that are added here.
func TestPublicRoutes(t *testing.T) {
	t.Parallel()
	s := open(t, baton.Config{Listen: "127.0.0.1:0", Tuning: baton.Tuning{APIKeys: true}})
	var public []string
	for _, route := range s.Routes() {
		method, path, _ := strings.Cut(route, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+regexp.MustCompile(`:\w+|\*\d*`).ReplaceAllString(path, "x"), http.NoBody)
		must(t, err)
		res, err := http.DefaultTransport.RoundTrip(req) // follows no redirects
		must(t, err)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized && method != http.MethodHead {
			public = append(public, route)
		}
	}
	slices.Sort(public)
	want := []string{
		"GET /api/v1/attachments/raw", // signed URLs
		"GET /docs", "GET /docs/:file", "GET /healthz", "GET /openapi.json", "GET /readyz",
	}
	if diff := cmp.Diff(want, public); diff != "" {
		t.Errorf("want (-) and public (+) differ:\n%s", diff)
	}
}
