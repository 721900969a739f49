package baton_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestViews_AreTheUsersOwn saves views, within limits, until the user's data is deleted.
func TestViews_AreTheUsersOwn(t *testing.T) {
	t.Parallel()
	const path = "/api/v1/me/views"
	sites(t, func(s site) {
		want := map[string]any{"items": []any{map[string]any{"name": "failed", "query": "status=failed"}}}
		none := map[string]any{"items": []any{}}
		if got := s.must("p1/alice/user", "PUT", path, `{"items":[{"name":"failed","query":"status=failed"}]}`); !cmp.Equal(got, want) {
			t.Errorf("put %v", got)
		}
		many := strings.TrimSuffix(strings.Repeat(`{"name":"v","query":""},`, 51), ",")
		for body, place := range map[string]string{
			`{}`: "/items", `{"items":{}}`: "/items", `{"items":[` + many + `]}`: "/items", `{"items":[{"name":"","query":"x"}]}`: "/items/0/name",
			`{"items":[{"name":"a","query":"x"},{"name":"a","query":"y"}]}`:               "/items/1/name",
			fmt.Sprintf(`{"items":[{"name":"a","query":%q}]}`, strings.Repeat("x", 2049)): "/items/0/query",
		} {
			if got := s.request("p1/alice/user", "PUT", path, body); got.status != http.StatusBadRequest || !strings.Contains(got.body, `"`+place+`"`) {
				t.Errorf("PUT %.60s: %d %s, want the place %s", body, got.status, got.body, place)
			}
		}
		for who, views := range map[string]map[string]any{"p1/alice/user": want, "p1/bob/admin": none, "p2/alice/user": none} {
			if got := s.must(who, "GET", path, ""); !cmp.Equal(got, views) {
				t.Errorf("%s has %v, want %v", who, got, views)
			}
		}
		s.must("p1/alice/user", "DELETE", "/api/projects/p1/users/alice/data", "")
		if got := s.must("p1/alice/user", "GET", path, ""); !cmp.Equal(got, none) {
			t.Errorf("after the deletion the user has %v", got)
		}
	})
}
