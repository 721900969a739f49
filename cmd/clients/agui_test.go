package clients

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/batonrun/baton/storage/postgrestest"
)

// HttpAgent of either dialect ends with the thread's messages and state for all runs, whenever it joins, without an error.
func TestAGUI(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, folder, database string) {
		t.Helper()
		s := start(t, database, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
		crash := httptest.NewServer(http.HandlerFunc(s.onCrash))
		t.Cleanup(crash.Close)
		judge(t, folder, "../agui/http.mjs", nil, "BATON_URL="+s.url(""), "CRASH_URL="+crash.URL)
	}
	eachDialect(t, test)
	t.Run(balanced, func(t *testing.T) {
		t.Parallel()
		needs(t, "agui1")
		test(t, "agui1", "BATON_DATABASE="+postgrestest.New(t))
	})
}

// The same with events that no built-in plugin emits.
func TestAGUI_EveryEvent(t *testing.T) {
	t.Parallel()
	eachDialect(t, func(t *testing.T, folder, database string) {
		// While the client applies a megabyte it does not read. On a busy machine that takes longer than twice the usual ping.
		s := startProgram(t, testBinary, database, "BATON_TIMEOUTS_PING=2m")
		judge(t, folder, "../agui/events.mjs", nil, "BATON_URL="+s.url(""))
	})
}

// eachDialect runs a test with the client of each dialect, each on another kind of database.
func eachDialect(t *testing.T, test func(t *testing.T, folder, database string)) {
	for folder, kind := range map[string]string{"agui0": sqlite, "agui1": postgres} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			needs(t, folder)
			on(t, kind, func(t *testing.T, database string) { test(t, folder, database) })
		})
	}
}
