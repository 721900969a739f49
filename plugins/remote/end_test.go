package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
)

// A run ends with its stream: what follows its end belongs to it.
func TestEnd_IsEndOfStream(t *testing.T) {
	t.Parallel()
	const (
		again    = "\n" + started
		call     = `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","delta":"{}"}`
		result   = "\n" + `{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"seen"}` + "\n"
		more     = `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"more"}`
		runError = "\n" + `{"type":"RUN_ERROR","message":"no luck","code":"unlucky"}` + "\n"
		done     = "\n[DONE]"
		all      = `call look
			args {}
			TOOL_CALL_END
			result success seen
			text assistant
			+ more
			end success more`
	)
	for name, tt := range map[string]struct{ in, code, want string }{
		"a tool's result":               {call + finished + result + more + finished, "", all},
		"a tool's result, another run":  {call + finished + result + again + more + finished, "", all},
		"another run":                   {call + finished + again + result + more + finished, "", all},
		"no other end":                  {call + finished + result + more, "", all},
		"no other end, but a farewell":  {call + finished + result + more + done, "", all},
		"a farewell":                    {call + result + more + finished + done, "", all},
		"another run that has no end":   {call + finished + result + again + more, "connection_lost", ""},
		"an error that comes too late":  {call + result + more + finished + runError, "", all},
		"an error of what goes on":      {call + finished + result + runError, "unlucky", ""},
		"an error with an end":          {call + runError + finished, "unlucky", ""},
		"an error with late words":      {runError + more, "unlucky", ""},
		"another run after an error":    {runError + again + call + result + more + finished, "", all},
		"the end of one that was asked": {call + interrupted("c") + result + more + finished, "", all},
		"a snapshot": {call + finished + `
			{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","toolCalls":[{"id":"c","function":{"name":"look","arguments":"{}"}}]},` +
			`{"id":"q","role":"tool","toolCallId":"c","content":"seen"},{"id":"m","role":"assistant","content":"more"}]}`, "", all},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, stream(started+tt.in))
			res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
			if got, _ := errors.AsType[*plugins.Error](res.Err); got == nil && tt.code != "" || got != nil && got.Code != tt.code {
				t.Errorf("%v, want %q", res.Err, tt.code)
			}
			if diff := cmp.Diff(trim(tt.want), brief(res.Events)); diff != "" && tt.code == "" {
				t.Errorf("(-want +got):\n%s\nlog: %s", diff, s.logged())
			}
		})
	}
}

// piped is a remote whose answer is written while it is read.
type piped func(w io.Writer)

func (p piped) RoundTrip(req *http.Request) (*http.Response, error) {
	in, out := io.Pipe()
	context.AfterFunc(req.Context(), func() { _ = in.CloseWithError(context.Cause(req.Context())) })
	go p(out) // ends when it may not write any more
	return &http.Response{StatusCode: http.StatusOK, Body: in}, nil
}

// A stream that stays open after the end of its run is closed two seconds after its last event; comments are none.
func TestEnd_ClosesOpenStream(t *testing.T) {
	t.Parallel()
	const (
		look = `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"look","delta":"{}"}`
		seen = `{"type":"TOOL_CALL_RESULT","messageId":"q","toolCallId":"c","content":"seen"}`
	)
	const snapshot = `data: {"type":"STATE_SNAPSHOT","snapshot":{"n":1}}` + "\n\n"
	frames := func(events string) string {
		return "data: " + strings.ReplaceAll(strings.TrimSpace(events), "\n", "\n\ndata: ") + "\n\n"
	}
	for name, tt := range map[string]struct {
		script []string // one a second
		after  time.Duration
		code   string
	}{
		"at once":               {[]string{frames(started + hello + finished)}, 2 * time.Second, ""},
		"pings":                 {[]string{frames(started + hello + finished), ":\n\n", ": ping\n\n", ":\n\n"}, 2 * time.Second, ""},
		"more events":           {[]string{frames(started + hello + finished), snapshot, ":\n\n", snapshot}, 3 * time.Second, ""},
		"a slow tool":           {[]string{frames(started + look + finished), "", "", "", ":\n\n", frames(seen), "", "", "", frames(hello + finished)}, 11 * time.Second, ""},
		"a tool without result": {[]string{frames(started + look + finished), ":\n\n", ":\n\n"}, time.Minute, ""},
		"a failed run's tool":   {[]string{frames(started + look + "\n" + `{"type":"RUN_ERROR","message":"no","code":"no"}`)}, 2 * time.Second, "no"},
		"it goes on":            {[]string{frames(started + finished), frames(hello), "", "", "", frames(finished)}, 7 * time.Second, ""},
		"it never ends again":   {[]string{frames(started + finished), frames(hello)}, 61 * time.Second, "stalled"},
		"another one has begun": {[]string{frames(started + finished), frames(started)}, 61 * time.Second, "stalled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := make(chan struct{})
				a, err := remote.New(remote.Config{Name: "writer", URL: "http://remote.test", Idle: time.Minute, Client: &http.Client{Transport: piped(func(w io.Writer) {
					defer close(left)
					for _, said := range tt.script {
						if _, err := io.WriteString(w, said); err != nil {
							return
						}
						<-time.After(time.Second)
					}
				})}})
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				res, err := plugintest.Execute(t.Context(), a, plugintest.Config{Input: plugins.Input{Query: "go"}})
				if err != nil {
					t.Fatal(err)
				}
				got, _ := errors.AsType[*plugins.Error](res.Err)
				if took := time.Since(begun); took != tt.after || got == nil && tt.code != "" || got != nil && got.Code != tt.code {
					t.Errorf("after %s: %v", took, res.Err)
				}
				<-left
			})
		})
	}
}
