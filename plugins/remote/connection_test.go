package remote_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/plugins/remote"
	"github.com/batonrun/baton/runtime/agui"
)

func TestConnection_EndsWhenIdleOrCancelled(t *testing.T) {
	t.Parallel()
	asked, left := make(chan struct{}, 2), make(chan struct{}, 2)
	hang := func(w http.ResponseWriter, r *http.Request) {
		stream(started)(w, r)
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-r.Context().Done()
		left <- struct{}{}
	}
	s := serve(t, hang)
	res := plugintest.Run(t, s.agent(t, func(c *remote.Config) { c.Idle = time.Second }), plugintest.Config{Input: plugins.Input{Query: "go"}})
	if got, ok := errors.AsType[*plugins.Error](res.Err); !ok || got.Code != "stalled" {
		t.Errorf("got %#v", res.Err)
	}
	<-asked
	<-left
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { // ends when the server is called again
		<-asked
		cancel(plugins.ErrCancelled)
	}()
	res, _ = plugintest.Execute(ctx, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
	if !errors.Is(res.Err, plugins.ErrCancelled) {
		t.Errorf("got %v", res.Err)
	}
	<-left
}

// A run that is left before its end is stopped, and so is the one that another server left behind; no other.
func TestConnection_StopsRunsThatGoOn(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	stops := make(chan *http.Request, 10)
	answers := make(chan http.HandlerFunc, 10)
	s := serve(t, stream(""))
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/stop/") {
			stops <- r
			return
		}
		var in agui.RunAgentInput
		_ = json.NewDecoder(r.Body).Decode(&in)
		asked <- in.ThreadID
		(<-answers)(w, r)
	})
	agent := s.agent(t, func(c *remote.Config) {
		c.Stop, c.Headers = s.URL+"/stop/{threadId}?x=1", map[string]string{"Authorization": "Bearer abcdef"}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	answers <- func(w http.ResponseWriter, r *http.Request) {
		stream(started)(w, r)
		w.(http.Flusher).Flush()
		cancel(plugins.ErrCancelled)
		<-r.Context().Done()
	}
	res, _ := plugintest.Execute(ctx, agent, plugintest.Config{Input: plugins.Input{Query: "go"}})
	if !errors.Is(res.Err, plugins.ErrCancelled) {
		t.Errorf("got %v", res.Err)
	}
	select {
	case r := <-stops:
		if want := "/stop/" + <-asked; r.Method != http.MethodPost || r.URL.Path != want || r.Header.Get("Authorization") != "Bearer abcdef" {
			t.Errorf("%s %s %v, want %s", r.Method, r.URL, r.Header, want)
		}
	default:
		t.Error("the run was not stopped")
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		crash  int
		stops  int
	}{
		"no event":  {stream(""), 0, 1},
		"cut":       {stream(started + hello), 0, 1},
		"finished":  {stream(started + hello + finished), 0, 0},
		"crash":     {stream(started + hello + finished), 2, 1},
		"run error": {stream(started + `{"type":"RUN_ERROR","message":"no"}`), 0, 0},
		"refused":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) }, 0, 0},
	} {
		for range max(tt.crash, 1) {
			answers <- tt.answer
		}
		plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}, CrashBefore: tt.crash})
		if len(stops) != tt.stops {
			t.Errorf("%s: stopped %d times", name, len(stops))
		}
		for range len(stops) {
			<-stops
		}
	}
}

func TestConnection_ReadsLastEventWithoutEmptyLine(t *testing.T) {
	t.Parallel()
	for end, code := range map[string]string{
		strings.TrimSpace(finished):        "",
		strings.TrimSpace(finished) + "\n": "",
		`{"type":"RUN_FINISHED","threadId`: "connection_lost",
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			stream(started+hello)(w, r)
			fmt.Fprint(w, "data: "+end)
		})
		res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
		if got, _ := errors.AsType[*plugins.Error](res.Err); got == nil && code != "" || got != nil && got.Code != code {
			t.Errorf("%q: %v, want %q", end, res.Err, code)
		}
	}
}

// A stream is read by what it is: its type need not say so, and nobody has asked for its compression.
func TestConnection_ReadsStreamsOfAnyType(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "text/plain", "application/json", "application/octet-stream", "text/event-stream; charset=utf-8", "application/x-ndjson"} {
		for _, begin := range []string{"", "\ufeff", "\n", ": hello\n\n", "event: message\n"} {
			for _, zips := range []bool{false, true} {
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					answer := httptest.NewRecorder()
					fmt.Fprint(answer, begin)
					stream(started+hello+finished)(answer, r)
					w.Header()["Content-Type"] = []string{kind}
					if !zips {
						_, _ = answer.Body.WriteTo(w)
						return
					}
					z := gzip.NewWriter(w)
					_, _ = answer.Body.WriteTo(z)
					_ = z.Close()
				})
				res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
				if res.Err != nil || res.Output.Answer != "hello world" {
					t.Errorf("%q begins %q, zipped %v: %q, %v", kind, begin, zips, res.Output.Answer, res.Err)
				}
			}
		}
	}
}

// numbered is an answer whose events have ids, cut after the id until.
func numbered(until int) http.HandlerFunc {
	events := strings.Split(strings.TrimSpace(started+hello+finished), "\n")
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i, ev := range events[:min(until, len(events))] {
			fmt.Fprintf(w, "id: %d\r\nevent: x\r\n: comment\r\ndata: %s\r\n\r\n", 10+i, strings.TrimSpace(ev))
		}
	}
}

func TestConnection_ResumesNumberedEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, numbered(3), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, numbered(4), numbered(99))
	res := plugintest.Run(t, s.agent(t), plugintest.Config{Input: plugins.Input{Query: "go"}})
	if res.Err != nil || res.Output.Answer != "hello world" || strings.Count(res.Log(), `"TEXT_MESSAGE_START"`) != 1 {
		t.Fatalf("%v\n%s", res.Err, res.Log())
	}
	for i := range s.bodies {
		if s.bodies[i] != s.bodies[0] || s.headers[i].Get("Idempotency-Key") != s.asked[0].RunID {
			t.Errorf("request %d is another: %s", i, s.bodies[i])
		}
	}
}

func TestRun_RepeatsRequestAfterCrash(t *testing.T) {
	t.Parallel()
	s := serve(t, stream(started+`{"type":"STATE_SNAPSHOT","snapshot":{"list":[1]}}
		{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list/-","value":2}]}`+"\n"+hello+finished))
	cfg := plugintest.Config{Input: plugins.Input{Query: "go"}, CrashBefore: 2}
	res := plugintest.Run(t, s.agent(t), cfg)
	if res.Err != nil || len(s.asked) != 2 || s.bodies[0] != s.bodies[1] {
		t.Fatalf("%v, asked %d times:\n%s", res.Err, len(s.asked), strings.Join(s.bodies, "\n"))
	}
	if got := string(res.State()); got != `{"list":[1,2]}` {
		t.Errorf("state %s", got)
	}
	res = plugintest.Run(t, s.agent(t, func(c *remote.Config) { c.AtMostOnce = true }), cfg)
	if got, ok := errors.AsType[*plugins.Error](res.Err); !ok || got.Code != "interrupted" || len(s.asked) != 3 {
		t.Errorf("got %#v, asked %d times", res.Err, len(s.asked)-2)
	}
}
