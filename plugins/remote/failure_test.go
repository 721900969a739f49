package remote_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
)

func TestFailure_Codes(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, stream(started+hello+finished))
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}
	}
	for name, tt := range map[string]struct {
		answer    http.HandlerFunc
		code      string
		message   string
		retryable bool
	}{
		"run error":             {stream(started + `{"type":"RUN_ERROR","message":"no luck","code":"unlucky"}`), "unlucky", "no luck", false},
		"run error, no message": {stream(started + `{"type":"RUN_ERROR"}`), "remote_failed", "does not say why", false},
		"cancelled there":       {stream(started + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}`), "remote_cancelled", "", false},
		"cut":                   {stream(started + hello), "connection_lost", "", true},
		"nothing":               {stream(""), "empty_answer", "no event", true},
		"no JSON":               {stream(": ping"), "not_agui", "", false},
		"another stream":        {stream(`{"choices":[]}` + "\n[DONE]"), "not_agui", "no event of AG-UI", false},
		"an error that is no event": {
			stream(started + hello + "\n" + `{"error":{"message":"top-secret is worn"}}`), "remote_failed",
			"an error: *** is worn", true,
		},
		"an error of another form":   {stream(started + `{"type":"ERROR","message":"worn"}`), "remote_failed", "an error: worn", true},
		"a run error of objects":     {stream(started + `{"type":"RUN_ERROR","message":{"why":"worn"},"code":7}`), "7", `{"why":"worn"}`, false},
		"a sentence that is no JSON": {stream(started + hello + "\nThe GPU is gone, top-secret"), "remote_failed", "an error: The GPU is gone, ***", true},
		"a word that is no JSON":     {stream(started + hello + "\nping"), "connection_lost", "", true},
		"another outcome": {
			stream(started + `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"error"}}`), "remote_failed", `the outcome "error"`, false,
		},
		"no stream":         {status(200, `{}`), "not_agui", "", false},
		"another document":  {status(202, `{"queued":["top-secret"]}`), "not_agui", `event stream: {"queued":["***"]}`, false},
		"another refusal":   {status(400, `{"x": 1}`), "refused", `status 400: {"x": 1}`, false},
		"an error in a 200": {status(200, `{"error":{"message":"no such agent"}}`), "not_agui", "event stream: no such agent", false},
		"a web page":        {status(200, `<html><title>Sign in</title></html>`), "not_agui", "event stream: Sign in", false},
		"accepted":          {status(202, ``), "not_agui", "", false},
		"unauthorized":      {status(401, `{"detail":"bad token top-secret"}`), "unauthorized", "status 401: bad token ***", false},
		"forbidden":         {status(403, `{"error":"forbidden","error_description":"not for you"}`), "unauthorized", "status 403: not for you", false},
		"a list of errors": {
			status(422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`), "refused",
			"status 422: body.messages: field required", false,
		},
		"a secret at the limit": {status(400, strings.Repeat("x", 990)+"Bearer top-secret"), "refused", "xxx", false},
		"invalid":               {status(422, `{"detail":"messages.0: no top-secret here"}`), "refused", "status 422: messages.0: no *** here", false},
		"server error":          {status(500, `oops`), "remote_failed", "status 500: oops", true},
		"too many":              {status(429, `{}`), "rate_limited", "", true},
		"a page declared as events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "<html><title>Sign in with top-secret</title></html>")
		}, "not_agui", "event stream: Sign in with ***", false},
		"an error declared as events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `{"error":"worn"}`)
		}, "not_agui", "event stream: worn", false},
		"another compression": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "\x0b\x02\x80{}\x03")
		}, "not_agui", "compressed with br", false},
		"redirect":          {http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect).ServeHTTP, "redirected", "", false},
		"a secret it tells": {stream(started + `{"type":"RUN_ERROR","message":"Bearer top-secret is no good","code":"x"}`), "x", "*** is no good", false},
		"too large":         {stream(started + `{"type":"CUSTOM","name":"x","value":"` + strings.Repeat("x", 70_000) + `"}`), "answer_too_large", "", false},
		"an endless line": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": "+strings.Repeat("x", 1<<20))
		}, "answer_too_large", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, tt.answer)
			res := plugintest.Run(t, s.agent(t, func(c *remote.Config) {
				c.Headers, c.MaxEvent = map[string]string{"Authorization": "Bearer top-secret"}, 64<<10
			}), plugintest.Config{Input: plugins.Input{Query: "go"}})
			got, ok := errors.AsType[*plugins.Error](res.Err)
			if !ok || got.Code != tt.code || got.Retryable != tt.retryable || !strings.Contains(got.Message, tt.message) {
				t.Fatalf("got %#v, want %s", res.Err, tt.code)
			}
			if strings.Contains(res.Err.Error()+s.logged()+res.Log(), "top-secret") {
				t.Errorf("a secret is told: %v\n%s", res.Err, s.logged())
			}
		})
	}
	if len(elsewhere.asked) != 0 {
		t.Error("a redirect to another host was followed")
	}
	gone := serve(t, stream(""))
	agent := gone.agent(t)
	gone.Close()
	res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}})
	if got, ok := errors.AsType[*plugins.Error](res.Err); !ok || got.Code != "unreachable" || !got.Retryable {
		t.Errorf("got %#v", res.Err)
	}
}
