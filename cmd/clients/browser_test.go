package clients

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
)

// A browser follows a thread across a crash of the server, event by event. Pages of other origins cannot.
func TestBrowser(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	page := httptest.NewUnstartedServer(nil)
	origin := "http://" + page.Listener.Addr().String()
	s := start(t, "BATON_ORIGINS="+origin)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>a page</title>")
	})
	mux.HandleFunc("POST /crash", s.onCrash)
	page.Config.Handler = mux
	page.Start()
	t.Cleanup(page.Close)
	stranger := strings.Replace(origin, "127.0.0.1", "localhost", 1)
	judge(t, "browser", "browser.mjs", nil, "BATON_URL="+s.url(""), "PAGE="+origin, "STRANGER="+stranger, chromium)
}

// The pages of the API and of a monitor need only files that Baton serves.
func TestBrowser_Pages(t *testing.T) {
	t.Parallel()
	chromium := browser(t)
	s := start(t)
	judge(t, "browser", "pages.mjs", nil, "BATON_URL="+s.url(""), chromium)
}

// browser returns the variable that names the browser for a script.
func browser(t *testing.T) string {
	t.Helper()
	needs(t, "browser")
	for _, name := range []string{"chromium-headless-shell", "chromium"} { // the first draws no windows and takes half of the time
		if path, err := exec.LookPath(name); err == nil {
			return "CHROMIUM=" + path
		}
	}
	missing(t, "chromium")
	return ""
}

// Every page of the console works in Firefox.
func TestFirefox(t *testing.T) {
	t.Parallel()
	needs(t, "browser")
	firefox, err := exec.LookPath("firefox-esr")
	if err != nil {
		missing(t, "firefox-esr")
	}
	s := start(t)
	judge(t, "browser", "firefox.mjs", nil, "BATON_URL="+s.url(""), "FIREFOX="+firefox)
}
