package clients

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/batonrun/baton/storage/sqlitetest"
)

// HttpAgent of either dialect ends with the thread's messages and state, whatever runs do, whenever it joins,
// and has nothing to complain about.
func TestAGUI(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder, database string) {
		s := start(t, database, "BATON_TIMEOUTS_ON_DISCONNECT_GRACE=2s")
		crash := httptest.NewServer(http.HandlerFunc(s.onCrash))
		t.Cleanup(crash.Close)
		judge(t, folder, "../agui/http.mjs", nil, "BATON_URL="+s.url(""), "CRASH_URL="+crash.URL)
	})
}

// It ends with them also when plugins emit what no built-in one does.
func TestEveryEvent(t *testing.T) {
	eachDialect(t, func(t *testing.T, folder, database string) {
		s := startProgram(t, testBinary, database)
		judge(t, folder, "../agui/events.mjs", nil, "BATON_URL="+s.url(""))
	})
}

// eachDialect runs a test with the client of each dialect, and with the newest one on PostgreSQL too: what is
// stored is the same for both.
func eachDialect(t *testing.T, test func(t *testing.T, folder, database string)) {
	t.Run("agui0", func(t *testing.T) {
		t.Parallel()
		needs(t, "agui0")
		test(t, "agui0", "BATON_DATABASE=sqlite:"+sqlitetest.New(t))
	})
	t.Run("agui1", func(t *testing.T) {
		t.Parallel()
		needs(t, "agui1")
		onEachDatabase(t, func(t *testing.T, database string) { test(t, "agui1", database) })
	})
}
