package clients

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Libraries that read event streams with fetch resume after a crash of the server, and end with the stream.
func TestEventSourceLibraries(t *testing.T) {
	t.Parallel()
	needs(t, "eventsource")
	alsoBalanced(t, func(t *testing.T) {
		s := start(t, "BATON_TIMEOUTS_PING=300ms")
		crash := httptest.NewServer(http.HandlerFunc(s.onCrash))
		t.Cleanup(crash.Close)
		judge(t, "eventsource", "streams.mjs", nil, "BATON_URL="+s.url(""), "CRASH_URL="+crash.URL)
	})
}
