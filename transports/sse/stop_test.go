package sse_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/transports"
)

func TestStoppingServerEndsStreamsAndNoRun(t *testing.T) {
	t.Parallel()
	s := serve(t, transports.StreamConfig{Ping: time.Hour}) // a busy machine takes long for so many viewers
	post := s.typing("")
	post.Until("STEP_STARTED")
	var gets []*response
	for range 300 { // more than two slices
		r := s.get("main", "?after_event_id=latest")
		r.Next()
		gets = append(gets, r)
	}
	s.Stop()
	got := post.All()
	if !strings.HasPrefix(got, "event: RUN_ERROR\ndata: ") || !strings.Contains(got, `"code":"interrupted"`) || strings.Contains(got, "id: ") {
		t.Errorf("the run's stream ended with %s", got)
	}
	delays := make(map[int]bool)
	for _, r := range gets {
		body := r.All()
		text, ok := strings.CutPrefix(strings.TrimSuffix(body, "\n"), "retry: ")
		ms, err := strconv.Atoi(text)
		if !ok || err != nil || ms < 1000 || ms > 5000 {
			t.Fatalf("a viewer's stream ended with %q", body)
		}
		delays[ms] = true
	}
	if len(delays) < 100 {
		t.Errorf("300 viewers come back at %d different times", len(delays))
	}
	if n := s.Streams.Open(); n != 0 {
		t.Errorf("%d streams are open", n)
	}
}

func TestRunsDrainWhileTheyAreWatched(t *testing.T) {
	t.Parallel()
	s := serveDraining(t, transports.StreamConfig{}, patience)
	s.Script("main", `{"tokens": 100, "delayMs": 10}`)
	r := s.get("main", "")
	r.Until("TEXT_MESSAGE_START")
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = s.Runtime.Shutdown(t.Context()) }()
	s.Eventually("the server is not ready", func() bool {
		return s.Do("GET", "/readyz", "").StatusCode == http.StatusServiceUnavailable
	})
	s.Do("GET", "/readyz", "").Refused(http.StatusServiceUnavailable, "stopping")
	refusal := s.Do("POST", "/api/v1/agent/runs", `{"agent": "echo", "content": "x"}`)
	refusal.Refused(http.StatusServiceUnavailable, "stopping")
	if refusal.Header.Get("Retry-After") == "" {
		t.Error("a stopping server must say when to come back")
	}
	if got := r.Until("RUN_FINISHED"); strings.Count(got, "event: TEXT_MESSAGE_CONTENT") != 100 {
		t.Errorf("got %s", got)
	}
	<-stopped
}
