package clients

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Libraries for server-sent events get each event once though the server is killed, take no ping for one, and see
// that a stream was cut.
func TestEventSource(t *testing.T) {
	t.Parallel()
	needs(t, "eventsource")
	onEachDatabase(t, func(t *testing.T, database string) {
		s := start(t, database, "BATON_STREAM_PING=150ms")
		crash := httptest.NewServer(http.HandlerFunc(s.onCrash))
		t.Cleanup(crash.Close)
		judge(t, "eventsource", "sse.mjs", nil, "BATON_URL="+s.url(""), "CRASH_URL="+crash.URL)
	})
}
