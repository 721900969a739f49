package clients

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// guarded is a workflow whose second node needs leave, and whose third is never executed.
const guarded = `
workflows:
  guarded:
    description: Asks before it computes.
    nodes:
      say: {agent: echo}
      compute: {tool: calculator, needs: [say], input: {expression: "'1+1'"}, approval: required}
      never: {agent: echo, needs: [say], when: "say.status == 'skipped'"}
`

// The console in a browser, as a person has it, with both databases, in both themes and on large and small screens.
func TestConsole(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	onEachDatabase(t, func(t *testing.T, database string) {
		settings := filepath.Join(t.TempDir(), "baton.yaml")
		if err := os.WriteFile(settings, []byte(guarded), 0o600); err != nil {
			t.Fatal(err)
		}
		s := start(t, database, "BATON_CONFIG="+settings)
		mux := http.NewServeMux()
		mux.HandleFunc("POST /crash", s.onCrash)
		control := httptest.NewServer(mux)
		t.Cleanup(control.Close)
		judge(t, "browser", "console.mjs", nil, "BATON_URL="+s.url(""), "CONTROL="+control.URL, chromium)
	})
}
