package remote_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
)

// The remote fails and recovers.
func TestHealth_FollowsLatestRequest(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789abcdef"
	refuse := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"detail":"no ` + r.URL.Path + ` for ` + r.Header.Get("Authorization") + `"}`))
		}
	}
	well := stream(started + hello + finished)
	s := serve(t, well, refuse(503), refuse(500), refuse(409), well, refuse(429))
	a := s.agent(t, func(cfg *remote.Config) {
		cfg.URL = s.URL + "/" + key + "/agui"
		cfg.Headers = map[string]string{"Authorization": "Bearer " + key}
	})
	if got := a.Health(); got != nil {
		t.Errorf("before the first request: %+v", got)
	}
	var since [6]int64
	for i, ok := range []bool{true, false, false, false, true, true} {
		if _, err := plugintest.Execute(t.Context(), a, plugintest.Config{}); err != nil {
			t.Fatal(err)
		}
		h := a.Health()
		if h == nil || h.OK != ok || strings.Contains(h.Detail, key) || ok != (h.Detail == "") {
			t.Fatalf("after request %d: %+v", i+1, h)
		}
		since[i] = h.Since.UnixNano()
	}
	if since[1] == since[0] || since[2] != since[1] || since[3] != since[1] || since[4] == since[1] || since[5] != since[4] {
		t.Errorf("it has changed at %v", since)
	}
}
