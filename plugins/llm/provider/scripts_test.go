package provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/runtime/agui"
)

const key = "sk-secret-0123456789"

// protocol is a provider's protocol with its peculiarities.
type protocol struct {
	name   string
	config provider.Config
	path   string // of the base URL

	whole   bool // calls come in one piece
	silent  bool // refusals have no reason
	willing bool // never refuses
}

var protocols = []protocol{
	{name: "chat", config: provider.Config{Provider: "openai", Model: "m", API: "chat"}, path: "/v1"},
	{name: "responses", config: provider.Config{Provider: "openai", Model: "m", API: "responses", Reasoning: "low"}, path: "/v1"},
	{name: "anthropic", config: provider.Config{Provider: "anthropic", Model: "m", Reasoning: "low"}},
	{name: "google", config: provider.Config{Provider: "google", Model: "m", Reasoning: "low"}, whole: true, silent: true},
	{name: "ollama", config: provider.Config{Provider: "ollama", Model: "m"}, whole: true, willing: true},
}

// open returns a model of each protocol at a server with the given answers.
func open(t *testing.T, answer func(*llmtest.Request) llmtest.Script, test func(*testing.T, int, llm.Streamer, *llmtest.Server)) {
	t.Helper()
	for i, p := range protocols {
		openOne(t, p.name, answer, func(t *testing.T, m llm.Streamer, server *llmtest.Server) { test(t, i, m, server) })
	}
}

// openOne returns a model of one protocol at a server with the given answers.
func openOne(t *testing.T, name string, answer func(*llmtest.Request) llmtest.Script, test func(*testing.T, llm.Streamer, *llmtest.Server)) {
	t.Helper()
	i := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == name })
	p := protocols[i]
	t.Run(p.name, func(t *testing.T) {
		server := llmtest.New(answer)
		defer server.Close()
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		cfg := p.config
		cfg.BaseURL, cfg.APIKey, cfg.HTTPClient = server.URL+p.path, key, &http.Client{Transport: transport}
		m, err := provider.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		test(t, m, server)
	})
}

// seen is the streamed part of an answer.
type seen struct {
	text, reasoning string
	calls           []llm.CallPiece
	pieces          int
}

func (s *seen) show(p llm.Piece) error {
	s.pieces++
	s.text += p.Text
	s.reasoning += p.Reasoning
	if p.Call == nil {
		return nil
	}
	if p.Call.Index == len(s.calls) {
		s.calls = append(s.calls, *p.Call)
		return nil
	}
	s.calls[p.Call.Index].Arguments += p.Call.Arguments
	return nil
}

func question() llm.Request {
	return llm.Request{Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}}
}

var usage = &agui.TokenUsage{InputTokens: 100, OutputTokens: 20, ReasoningTokens: 5, CachedInputTokens: 60}

func TestStream_AllScripts(t *testing.T) {
	long := strings.Repeat("0123456789", 20_000)
	for name, script := range map[string]llmtest.Script{
		"text":      {Steps: []llmtest.Step{llmtest.Text("Hello"), llmtest.Text(", world: "), llmtest.Text("\n\ndata: ünï\"\\ 🙂")}, Usage: usage},
		"reasoning": {Steps: []llmtest.Step{llmtest.Reasoning("Let me "), llmtest.Reasoning("think."), llmtest.Text("42")}, Usage: usage},
		"one call": {Steps: []llmtest.Step{
			llmtest.Text("I look."), llmtest.Call(0, "call_a", "search"), llmtest.Arguments(0, `{"q":`), llmtest.Arguments(0, `"x"}`),
		}, Usage: usage},
		"a call with no arguments": {Steps: []llmtest.Step{llmtest.Call(0, "call_a", "now")}, Usage: usage},
		"three calls at once": {Steps: []llmtest.Step{
			llmtest.Call(0, "call_a", "search"), llmtest.Call(1, "call_b", "search"), llmtest.Arguments(0, `{"q":`),
			llmtest.Arguments(1, `{"q":`), llmtest.Call(2, "call_c", "read"), llmtest.Arguments(2, `{"path"`), llmtest.Arguments(0, `"x"}`),
			llmtest.Arguments(2, `:"/tmp"}`), llmtest.Arguments(1, `"y"}`),
		}, Usage: usage},
		"a long line":            {Steps: []llmtest.Step{llmtest.Text(long), llmtest.Text("!")}, Usage: usage},
		"a long line of a call":  {Steps: []llmtest.Step{llmtest.Call(0, "call_a", "write"), llmtest.Arguments(0, `{"text":"`+long+`"}`)}, Usage: usage},
		"signs of life":          {Steps: []llmtest.Step{llmtest.KeepAlive(), llmtest.Text("a"), llmtest.KeepAlive(), llmtest.KeepAlive(), llmtest.Text("b")}, Usage: usage},
		"no usage":               {Steps: []llmtest.Step{llmtest.Text("a")}},
		"nothing at all":         {Usage: usage},
		"an answer that is long": {Steps: []llmtest.Step{llmtest.Text("a")}, Finish: "length", Usage: usage},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, llmtest.Always(script), func(t *testing.T, i int, m llm.Streamer, server *llmtest.Server) {
				var got seen
				res, err := m.Stream(t.Context(), question(), got.show)
				if err != nil {
					t.Fatal(err)
				}
				same(t, script, got, res, protocols[i].config.Provider)
				if n := len(server.Requests()); n != 1 {
					t.Errorf("%d requests", n)
				}
				if got.pieces < len(script.Steps)/2 && !protocols[i].whole {
					t.Errorf("%d pieces of %d steps: they are not streamed", got.pieces, len(script.Steps))
				}
			})
		})
	}
}

// same checks that the streamed pieces and the complete answer match the script.
func same(t *testing.T, script llmtest.Script, got seen, res llm.Response, providerName string) {
	t.Helper()
	var want seen
	for _, step := range script.Steps {
		if !step.KeepAlive {
			_ = want.show(step.Piece)
		}
	}
	if got.text != want.text || got.reasoning != want.reasoning {
		t.Errorf("shown: text %.80q, reasoning %q", got.text, got.reasoning)
	}
	if res.Text != want.text || res.Reasoning != want.reasoning {
		t.Errorf("answer: text %.80q, reasoning %q", res.Text, res.Reasoning)
	}
	finish := "stop"
	if len(want.calls) > 0 {
		finish = "tool_calls"
	}
	if script.Finish != "" {
		finish = script.Finish
	}
	if res.Finish != finish {
		t.Errorf("finish %q, want %q", res.Finish, finish)
	}
	if len(got.calls) != len(want.calls) || len(res.Calls) != len(want.calls) {
		t.Fatalf("calls: shown %d, answered %d, want %d", len(got.calls), len(res.Calls), len(want.calls))
	}
	ids := map[string]bool{}
	for i, c := range res.Calls {
		ids[c.ID] = true
		arguments := want.calls[i].Arguments
		if c.FunctionCall.Name != want.calls[i].Name || !sameJSON(c.FunctionCall.Arguments, arguments) || c.ID == "" || c.ID != got.calls[i].ID {
			t.Errorf("call %d: %s %s %.80s, want %s %.80s", i, c.ID, c.FunctionCall.Name, c.FunctionCall.Arguments, want.calls[i].Name, arguments)
		}
		if !sameJSON(got.calls[i].Arguments, arguments) || got.calls[i].Name != want.calls[i].Name {
			t.Errorf("shown call %d: %.80q", i, got.calls[i].Arguments)
		}
	}
	if len(ids) != len(res.Calls) {
		t.Errorf("%d ids for %d calls", len(ids), len(res.Calls))
	}
	counted := agui.TokenUsage{Provider: providerName, Model: "m"}
	if u := script.Usage; u != nil {
		counted.InputTokens, counted.OutputTokens = u.InputTokens, u.OutputTokens
		counted.ReasoningTokens, counted.CachedInputTokens = res.Usage.ReasoningTokens, res.Usage.CachedInputTokens // not all providers count these
	}
	if diff := cmp.Diff(counted, res.Usage); diff != "" {
		t.Errorf("usage: %s", diff)
	}
}

// sameJSON compares calls' arguments, where none equals an empty object.
func sameJSON(a, b string) bool {
	var x, y any
	if a == "" {
		a = "{}"
	}
	if b == "" {
		b = "{}"
	}
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}

func TestStream_RefusalIsText(t *testing.T) {
	script := llmtest.Script{Steps: []llmtest.Step{llmtest.Refusal("I cannot "), llmtest.Refusal("help with that.")}, Usage: usage}
	open(t, llmtest.Always(script), func(t *testing.T, i int, m llm.Streamer, _ *llmtest.Server) {
		var got seen
		res, err := m.Stream(t.Context(), question(), got.show)
		if err != nil {
			t.Fatal(err)
		}
		if !protocols[i].silent && (res.Text != "I cannot help with that." || got.text != res.Text) {
			t.Errorf("text %q, shown %q", res.Text, got.text)
		}
		if !protocols[i].willing && res.Finish != "content_filter" {
			t.Errorf("finish %q", res.Finish)
		}
	})
}

func TestStream_FailuresHaveCodes(t *testing.T) {
	for name, test := range map[string]struct {
		fail  llm.Error
		want  llm.Error
		inOwn []string // the protocols with words of their own for it; nil for all
	}{
		"too fast": {
			llm.Error{Status: 429, RetryAfter: 7 * time.Second, Message: "slow down"},
			llm.Error{Code: "rate_limited", Status: 429, RetryAfter: 7 * time.Second, Retryable: true},
			nil,
		},
		"broken":      {llm.Error{Status: 500}, llm.Error{Code: "provider_error", Status: 500, Retryable: true}, nil},
		"unavailable": {llm.Error{Status: 503}, llm.Error{Code: "overloaded", Status: 503, Retryable: true}, nil},
		"overloaded":  {llm.Error{Status: 529}, llm.Error{Code: "overloaded", Status: 529, Retryable: true}, []string{"anthropic"}},
		"wrong key": {
			llm.Error{Status: 401, Message: "Incorrect API key provided: " + key}, llm.Error{Code: "invalid_api_key", Status: 401}, nil,
		},
		"wrong key at google": {
			llm.Error{Status: 400, Message: "API key not valid. Please pass a valid API key."}, llm.Error{Code: "invalid_api_key", Status: 400}, nil,
		},
		"forbidden": {llm.Error{Status: 403}, llm.Error{Code: "permission_denied", Status: 403}, nil},
		"no model":  {llm.Error{Status: 404, Message: "model 'm' not found"}, llm.Error{Code: "model_not_found", Status: 404}, nil},
		"too long": {
			llm.Error{Status: 400, Message: "This model's maximum context length is 8192 tokens."}, llm.Error{Code: "context_too_long", Status: 400}, nil,
		},
		"too long at anthropic": {
			llm.Error{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, llm.Error{Code: "context_too_long", Status: 400}, nil,
		},
		"refused": {
			llm.Error{Status: 400, Code: "content_policy_violation"}, llm.Error{Code: "content_refused", Status: 400}, []string{"chat", "responses"},
		},
		"no money":     {llm.Error{Status: 429, Code: "insufficient_quota"}, llm.Error{Code: "quota_exceeded", Status: 429}, []string{"chat", "responses"}},
		"nonsense":     {llm.Error{Status: 422, Message: "tools: unknown field"}, llm.Error{Code: "bad_request", Status: 422}, nil},
		"a slow proxy": {llm.Error{Status: 504}, llm.Error{Code: "timeout", Status: 504, Retryable: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, llmtest.Always(llmtest.Script{Fail: &test.fail}), func(t *testing.T, i int, m llm.Streamer, server *llmtest.Server) {
				if test.inOwn != nil && !slices.Contains(test.inOwn, protocols[i].name) {
					return
				}
				_, err := m.Stream(t.Context(), question(), new(seen).show)
				var got *llm.Error
				if !errors.As(err, &got) {
					t.Fatalf("%v is not an llm.Error", err)
				}
				if got.Code != test.want.Code || got.Status != test.want.Status || got.Retryable != test.want.Retryable || got.RetryAfter != test.want.RetryAfter {
					t.Errorf("%+v, want %+v", *got, test.want)
				}
				if got.Message == "" || strings.Contains(got.Message, key) {
					t.Errorf("message %q", got.Message)
				}
				if n := len(server.Requests()); n != 1 {
					t.Errorf("%d requests: only the worker retries", n)
				}
			})
		})
	}
}

func TestStream_FailureInAnswer(t *testing.T) {
	script := llmtest.Script{Steps: []llmtest.Step{
		llmtest.Text("half"), llmtest.Fault(&llm.Error{Status: 503, Code: "overloaded_error", Message: "overloaded"}),
	}}
	open(t, llmtest.Always(script), func(t *testing.T, _ int, m llm.Streamer, _ *llmtest.Server) {
		res, err := m.Stream(t.Context(), question(), new(seen).show)
		var got *llm.Error
		if !errors.As(err, &got) || got.Code != "overloaded" || !got.Retryable || res.Text != "half" {
			t.Errorf("%q, %#v", res.Text, err)
		}
	})
}

func TestStream_IncompleteAnswerFails(t *testing.T) {
	for name, steps := range map[string][]llmtest.Step{
		"before a word": {llmtest.Cut()},
		"in the text":   {llmtest.Text("half"), llmtest.Cut()},
		"in a call":     {llmtest.Call(0, "c", "search"), llmtest.Arguments(0, `{"q":`), llmtest.Cut()},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, llmtest.Always(llmtest.Script{Steps: steps, Usage: usage}), func(t *testing.T, i int, m llm.Streamer, _ *llmtest.Server) {
				if name == "in a call" && protocols[i].whole {
					return
				}
				res, err := m.Stream(t.Context(), question(), new(seen).show)
				var got *llm.Error
				if !errors.As(err, &got) || got.Code != "connection_lost" || !got.Retryable {
					t.Errorf("%+v, %#v", res, err)
				}
			})
		})
	}
}

func TestStream_CancelClosesConnection(t *testing.T) {
	for name, steps := range map[string][]llmtest.Step{
		"before a word": {llmtest.Stall(nil)},
		"in the middle": {llmtest.Text("half"), llmtest.Stall(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			open(t, llmtest.Always(llmtest.Script{Steps: steps}), func(t *testing.T, _ int, m llm.Streamer, server *llmtest.Server) {
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					_, err := m.Stream(ctx, question(), new(seen).show)
					done <- err
				}()
				arrived(t, server)
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("%v", err)
				}
				<-server.Requests()[0].Gone
			})
		})
	}
}

// arrived waits for a request at the server.
func arrived(t *testing.T, server *llmtest.Server) {
	t.Helper()
	for end := time.Now().Add(10 * time.Minute); len(server.Requests()) == 0; {
		if time.Now().After(end) {
			t.Fatal("no request arrived")
		}
		runtime.Gosched()
	}
}

func TestStream_ReturnsErrorOfShow(t *testing.T) {
	enough := errors.New("enough")
	script := llmtest.Script{Steps: append(llmtest.Tokens(3, "x"), llmtest.Stall(nil))}
	open(t, llmtest.Always(script), func(t *testing.T, _ int, m llm.Streamer, server *llmtest.Server) {
		n := 0
		res, err := m.Stream(t.Context(), question(), func(llm.Piece) error {
			if n++; n == 2 {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) || n != 2 || res.Text != "xx" {
			t.Errorf("%v after %d pieces, %q", err, n, res.Text)
		}
		<-server.Requests()[0].Gone
	})
}

func TestClient_KeepsKeyFromOtherHosts(t *testing.T) {
	asked := make(chan struct{}, 1)
	elsewhere := llmtest.New(func(*llmtest.Request) llmtest.Script {
		asked <- struct{}{}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("stolen")}}
	})
	defer elsewhere.Close()
	for _, p := range protocols {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+p.path, http.StatusTemporaryRedirect))
		cfg := p.config
		cfg.BaseURL, cfg.APIKey = server.URL+p.path, key
		m, err := provider.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Stream(t.Context(), question(), new(seen).show)
		var got *llm.Error
		if !errors.As(err, &got) || got.Code != "bad_request" || got.Retryable {
			t.Errorf("%s: %v", p.name, err)
		}
		server.Close()
	}
	if len(asked) > 0 {
		t.Error("the redirect was followed")
	}
}

func TestGenerateContent_Streams(t *testing.T) {
	script := llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a"), llmtest.Text("b")}, Usage: usage}
	open(t, llmtest.Always(script), func(t *testing.T, _ int, m llm.Streamer, _ *llmtest.Server) {
		var chunks []string
		res, err := m.GenerateContent(t.Context(), question().Messages, llms.WithStreamingFunc(func(_ context.Context, chunk []byte) error {
			chunks = append(chunks, string(chunk))
			return nil
		}))
		if err != nil || res.Choices[0].Content != "ab" || res.Choices[0].StopReason != "stop" || !slices.Equal(chunks, []string{"a", "b"}) {
			t.Errorf("%+v, %v, %q", res, err, chunks)
		}
		if text, err := llms.GenerateFromSinglePrompt(t.Context(), m, "?"); err != nil || text != "ab" {
			t.Errorf("%q, %v", text, err)
		}
	})
}
