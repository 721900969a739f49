package clients

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// HttpAgent of either dialect ends with the thread's messages and state, whatever runs do, whenever it joins,
// and has nothing to complain about.
func TestAGUI(t *testing.T) {
	for _, folder := range []string{"agui0", "agui1"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			needs(t, folder)
			s := start(t, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
			crash := httptest.NewServer(http.HandlerFunc(s.onCrash))
			t.Cleanup(crash.Close)
			judge(t, folder, "../agui/http.mjs", nil, "BATON_URL="+s.url(""), "CRASH_URL="+crash.URL)
		})
	}
}
