package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins/mcp"
)

// The server is unavailable for a while.
func TestHealth_FollowsConnection(t *testing.T) {
	t.Parallel()
	const key = "sk-0123456789abcdef"
	var away, listening atomic.Bool
	up := handle(t, newServer(nil))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "no "+r.URL.Path+" "+r.Header.Get("Authorization"), http.StatusTeapot)
			return
		}
		up.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	cfg := mcp.Config{
		Name: "it", URL: web.URL + "/" + key + "/mcp?q=" + key, Headers: map[string]string{"Authorization": "Bearer " + key},
		Client: &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
			res, err := http.DefaultTransport.RoundTrip(req)
			if err == nil && req.Method == http.MethodGet {
				listening.Store(true)
			}
			return res, err
		})},
	}
	idle, err := mcp.New(cfg)
	must(t, err)
	if got := idle.Health(); got != nil {
		t.Errorf("before it was started: %+v", got)
	}
	before := time.Now()
	s := started(t, cfg)
	h := s.Health()
	if h == nil || !h.OK || h.Since.Before(before) || h.Detail != "" {
		t.Errorf("connected: %+v", h)
	}
	until(t, listening.Load) // else nothing is open that could be cut
	away.Store(true)
	web.CloseClientConnections()
	lost := time.Now()
	until(t, func() bool { h = s.Health(); return !h.OK && strings.Contains(h.Detail, "not connected") })
	if h.Since.Before(before) || h.Since.After(time.Now()) || strings.Contains(h.Detail, key) {
		t.Errorf("away: %+v", h)
	}
	if again := s.Health(); !again.Since.Equal(h.Since) {
		t.Errorf("away since %v, and since %v", h.Since, again.Since)
	}
	away.Store(false)
	until(t, func() bool { h = s.Health(); return h.OK })
	if h.Since.Before(lost) || h.Detail != "" {
		t.Errorf("back: %+v", h)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
