//go:build unix

package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A hostile server can neither control the terminal nor exhaust memory with an endless event.
func TestChat_ResistsHostileServer(t *testing.T) {
	const evil = `\u001b]0;owned\u0007\u001b[2J\u009b31m\u202e`
	var events strings.Builder
	for _, ev := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"STEP_STARTED","stepName":"` + evil + `"}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hello` + evil + `"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c` + evil + `","toolCallName":"` + evil + `"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"c` + evil + `","delta":"` + evil + `"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c` + evil + `"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"n","toolCallId":"c` + evil + `","content":"` + evil + `"}`,
		`{"type":"CUSTOM","name":"node-progress","value":{"nodeId":"` + evil + `","progress":1,"message":"` + evil + `"}}`,
	} {
		events.WriteString("data: " + strings.Replace(ev, "{", `{"runId":"r",`, 1) + "\n\n")
	}
	last := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `{"threadId":"t","runId":"r","eventsUrl":"/events"}`)
		case r.URL.Path != "/events":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"detail":"%s"}`, evil)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events.String())
			if last != "" {
				_, _ = io.WriteString(w, last)
				return
			}
			_, _ = io.WriteString(w, "data: ")
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
			}
		}
	}))
	defer srv.Close()
	r := talk(t, "hi\n", "agent", "--server", srv.URL, "--thread", "t").want(t, 1)
	if !strings.Contains(r.stderr, "more than 16 MiB") {
		t.Errorf("an endless event: %s", r.stderr)
	}
	last = `data: {"type":"RUN_ERROR","runId":"r","message":"` + evil + `","code":"` + evil + "\"}\n\n"
	again := talk(t, "hi\n", "agent", "--server", srv.URL, "--thread", "t").want(t, 1)
	for _, shown := range []string{r.stdout, r.stderr, again.stdout, again.stderr} {
		if strings.ContainsAny(shown, "\x1b\x07\u009b\u202e") {
			t.Errorf("the terminal gets %q", shown)
		}
	}
	if !strings.Contains(again.stdout, "hello") || !strings.Contains(again.stdout, "failed: ") {
		t.Errorf("got %q", again.stdout)
	}
}
