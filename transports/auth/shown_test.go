package auth_test

import (
	"testing"

	"github.com/batonrun/baton/transports/auth"
)

func TestLogsShowNoTickets(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/api/v1/agent/runs/t/events":                   "/api/v1/agent/runs/t/events",
		"/api/v1/agent/runs/t/events&ticket=secret":     "/api/v1/agent/runs/t/events...",
		"/api/v1/agent/runs/t/events%3Fticket=secret":   "/api/v1/agent/runs/t/events...",
		"/api/v1/agent/runs/t/events%253Fticket=secret": "/api/v1/agent/runs/t/events%3Fticket...",
		"/api/v1/agent/runs/t/events;ticket=secret":     "/api/v1/agent/runs/t/events...",
		"/api/v1/100%":                       "/api/v1/100%",
		"http://evil.example/?ticket=secret": "http://evil.example/...",
	} {
		if got := auth.Shown(path); got != want {
			t.Errorf("%s: got %s", path, got)
		}
	}
}
