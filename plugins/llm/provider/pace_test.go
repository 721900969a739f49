package provider_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/plugintest"
)

// busy is a provider with a limit of requests in a minute.
type busy struct {
	limit  int
	header bool // tells its limit and what is left of it

	mu       sync.Mutex
	accepted []time.Time
	users    []string
	refused  int
}

// RoundTrip answers after a fifth of a second with the prompt.
func (b *busy) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req}
	answer := `data: {"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
	b.mu.Lock()
	for len(b.accepted) > 0 && time.Since(b.accepted[0]) > time.Minute {
		b.accepted = b.accepted[1:]
	}
	if len(b.accepted) < b.limit {
		b.accepted = append(b.accepted, time.Now())
		_, user, _ := bytes.Cut(body, []byte("I am "))
		b.users = append(b.users, string(user[:1]))
	} else {
		b.refused++
		res.StatusCode, answer = http.StatusTooManyRequests, `{"error":{"message":"Rate limit reached"}}`
	}
	if b.header {
		res.Header.Set("X-Ratelimit-Limit-Requests", fmt.Sprint(b.limit))
		res.Header.Set("X-Ratelimit-Remaining-Requests", fmt.Sprint(b.limit-len(b.accepted)))
	}
	b.mu.Unlock()
	<-time.After(time.Second / 5)
	res.Body = io.NopCloser(strings.NewReader(answer))
	return res, nil
}

// A thousand runs of ten users, 900 of them one user's, at a provider that takes 60 requests in a minute.
func TestAgent_WaitsForTheProvidersLimit(t *testing.T) {
	for name, test := range map[string]struct {
		limits  pace.Limits
		header  bool
		refused int
	}{
		"configured":           {pace.Limits{Requests: 60}, false, 0},
		"told by the provider": {pace.Limits{}, true, 1000},
		"unknown":              {pace.Limits{}, false, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &busy{limit: 60, header: test.header}
				pacer := pace.New()
				pacer.Configure(test.limits)
				m, err := provider.Open(provider.Config{
					Provider: "openai", Model: "m", BaseURL: "http://model.test/v1", APIKey: key, Pace: pacer, HTTPClient: &http.Client{Transport: b},
				})
				if err != nil {
					t.Fatal(err)
				}
				agent, err := llm.New(llm.Config{Name: "a", Model: m})
				if err != nil {
					t.Fatal(err)
				}
				var all sync.WaitGroup
				for i := range 1000 {
					user := "0"
					if i >= 900 {
						user = fmt.Sprint(1 + i%9)
					}
					all.Go(func() {
						res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{User: user, Query: "I am " + user}})
						if res.Err != nil || res.Output.Answer != "done" {
							t.Errorf("%+v, %v", res.Output, res.Err)
						}
					})
					if i == 899 {
						synctest.Wait() // the busy user's calls are in line first
					}
				}
				all.Wait()
				if b.refused > test.refused {
					t.Errorf("%d requests were refused, want %d at most", b.refused, test.refused)
				}
				for at, user := range b.users {
					if user != "0" && at > 300 {
						t.Errorf("a call of user %s was number %d", user, at)
					}
				}
			})
		})
	}
}

// outage is a provider that is away or slow until a time, and counts its requests.
type outage struct {
	until    time.Time
	requests int
}

// RoundTrip refuses a request after ten seconds.
func (o *outage) RoundTrip(req *http.Request) (*http.Response, error) {
	o.requests++
	if time.Now().After(o.until) {
		return answering("from the first"), nil
	}
	select {
	case <-time.After(10 * time.Second):
	case <-req.Context().Done():
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("down")), Request: req}, nil
}

func answering(text string) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(
		`data: {"choices":[{"delta":{"content":"` + text + `"},"finish_reason":"stop"}]}` + "\n\n"))}
}

type transport func() *http.Response

func (t transport) RoundTrip(*http.Request) (*http.Response, error) { return t(), nil }

// A provider that is away for ten minutes costs one slow turn. Then turns go straight to the next model, and one each half minute
// looks whether the provider is back.
func TestAgent_GoesStraightToTheNextModelInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &outage{until: time.Now().Add(10 * time.Minute)}
		models := make([]llm.Streamer, 2)
		for i, rt := range []http.RoundTripper{away, transport(func() *http.Response { return answering("from the second") })} {
			m, err := provider.Open(provider.Config{Provider: "openai", Model: "m", BaseURL: "http://model.test/v1", APIKey: key, HTTPClient: &http.Client{Transport: rt}})
			if err != nil {
				t.Fatal(err)
			}
			models[i] = m
		}
		agent, err := llm.New(llm.Config{Name: "a", Model: models[0], Fallbacks: []llms.Model{models[1]}})
		if err != nil {
			t.Fatal(err)
		}
		begun, slow := time.Now(), 0
		for time.Since(begun) < 10*time.Minute {
			from := time.Now()
			if res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}}); res.Err != nil || res.Output.Answer != "from the second" {
				t.Fatalf("%+v, %v", res.Output, res.Err)
			}
			if took := time.Since(from); took > 30*time.Second {
				slow++
			} else if took > 10*time.Second {
				t.Errorf("a turn took %s", took)
			}
			if h := agent.Health(); h == nil || h.OK || !strings.Contains(h.Detail, "the model m is not called until") {
				t.Fatalf("health %+v", h)
			}
			<-time.After(time.Second)
		}
		if slow != 1 {
			t.Errorf("%d turns were slow, want 1", slow)
		}
		if away.requests > 3+20 {
			t.Errorf("the provider that was away got %d requests", away.requests)
		}
		<-time.After(time.Minute)
		if res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}}); res.Output.Answer != "from the first" {
			t.Errorf("%+v, %v after the outage", res.Output, res.Err)
		}
		if h := agent.Health(); h != nil {
			t.Errorf("health %+v after the outage", h)
		}
	})
}

// Without another model a model that is down gets one request for each turn.
func TestAgent_RepeatsNothingWhileItsOnlyModelIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := &outage{until: time.Now().Add(time.Minute)}
		m, err := provider.Open(provider.Config{Provider: "openai", Model: "m", BaseURL: "http://model.test/v1", APIKey: key, HTTPClient: &http.Client{Transport: away}})
		if err != nil {
			t.Fatal(err)
		}
		agent, err := llm.New(llm.Config{Name: "a", Model: m})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{3, 4, 5} {
			if res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}}); res.Err == nil || away.requests != want {
				t.Errorf("turn %d: %v after %d requests, want %d", i+1, res.Err, away.requests, want)
			}
		}
		away.until = time.Now()
		<-time.After(time.Second)
		if res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "go"}}); res.Output.Answer != "from the first" {
			t.Errorf("%+v, %v after the outage", res.Output, res.Err)
		}
	})
}
