package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/openai"
	"github.com/batonrun/baton/plugins/llm/wire"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends a question to a model of cfg at url.
func ask(t *testing.T, cfg openai.Config, url string, options llms.CallOptions) (llm.Response, error) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg.Model, cfg.BaseURL, cfg.HTTPClient = "m", url, &http.Client{Transport: transport}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}
	return m.Stream(t.Context(), llm.Request{Messages: messages, Options: options}, func(llm.Piece) error { return nil })
}

// says returns the URL of a server that always answers with the chunks.
func says(t *testing.T, chunks ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			fmt.Fprintf(w, "data: %s\n\n", c)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func calls(res llm.Response) []string {
	var list []string
	for _, c := range res.Calls {
		list = append(list, c.FunctionCall.Name+c.FunctionCall.Arguments)
	}
	return list
}

func TestChat_SeparatesCalls(t *testing.T) {
	call := func(fields string) string {
		return `{"choices":[{"index":0,"delta":{"tool_calls":[{` + fields + `}]},"finish_reason":null}]}`
	}
	end := `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
	for name, test := range map[string]struct {
		chunks []string
		want   []string
	}{
		"whole, with neither index nor id": {
			[]string{call(`"function":{"name":"a","arguments":"{\"x\":1}"}`), call(`"function":{"name":"a","arguments":"{\"x\":2}"}`), end},
			[]string{`a{"x":1}`, `a{"x":2}`},
		},
		"all of index 0": {
			[]string{
				call(`"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":1}"}`),
				call(`"index":0,"id":"2","function":{"name":"b","arguments":"{\"x\":2}"}`), end,
			},
			[]string{`a{"x":1}`, `b{"x":2}`},
		},
		"id and name again with each piece": {
			[]string{
				call(`"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\""}`),
				call(`"index":0,"id":"1","function":{"name":"a","arguments":":1}"}`), end,
			},
			[]string{`a{"x":1}`},
		},
		"pieces without an index": {
			[]string{call(`"id":"1","function":{"name":"a","arguments":""}`), call(`"function":{"arguments":"{\"x\":1}"}`), end},
			[]string{`a{"x":1}`},
		},
		"indices from 1": {
			[]string{
				call(`"index":1,"id":"1","function":{"name":"a"}`), call(`"index":2,"id":"2","function":{"name":"b"}`),
				call(`"index":1,"function":{"arguments":"{\"x\":1}"}`), call(`"index":2,"function":{"arguments":"{\"x\":2}"}`), end,
			},
			[]string{`a{"x":1}`, `b{"x":2}`},
		},
		"arguments that are no string, and stop for a finish": {
			[]string{call(`"index":0,"id":"1","function":{"name":"a","arguments":{"x":1}}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`},
			[]string{`a{"x":1}`},
		},
		"pieces of no call": {
			[]string{call(`"index":3,"function":{"arguments":"{}"}`), call(`"index":0,"id":"1","function":{"name":"a","arguments":"{}"}`), end},
			[]string{`a{}`},
		},
	} {
		res, err := ask(t, openai.Config{API: "chat"}, says(t, test.chunks...), llms.CallOptions{})
		if err != nil || res.Finish != "tool_calls" {
			t.Errorf("%s: %q, %v", name, res.Finish, err)
		}
		if diff := cmp.Diff(test.want, calls(res)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestChat_AcceptsLooseServer(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Loose: true, Steps: []llmtest.Step{
		llmtest.Call(0, "", "a"), llmtest.Arguments(0, `{"x":`), llmtest.Call(1, "", "b"), llmtest.Arguments(0, `1}`),
	}}))
	defer server.Close()
	res, err := ask(t, openai.Config{API: "chat"}, server.URL+"/v1", llms.CallOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`a{"x":1}`, `b{}`}, calls(res)); diff != "" || res.Calls[0].ID == res.Calls[1].ID {
		t.Error(diff, res.Calls)
	}
}

func TestChat_ServerWithoutUsage(t *testing.T) {
	server := llmtest.New(func(r *llmtest.Request) llmtest.Script {
		if strings.Contains(string(r.Body), "stream_options") {
			return llmtest.Script{Fail: &llm.Error{Status: 400, Message: "Unrecognized request argument supplied: stream_options"}}
		}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("yes")}, Usage: &agui.TokenUsage{InputTokens: 1}}
	})
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	m, err := openai.New(openai.Config{Model: "m", BaseURL: server.URL + "/v1", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if text, err := llms.GenerateFromSinglePrompt(t.Context(), m, "?"); text != "yes" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
	if n := len(server.Requests()); n != 3 {
		t.Errorf("%d requests: an unsupported option is sent once", n)
	}
}

func TestChat_OtherServersReasoning(t *testing.T) {
	res, err := ask(t, openai.Config{API: "chat"}, says(t,
		`{"choices":[],"prompt_filter_results":[]}`,
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning":"hm"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`,
	), llms.CallOptions{})
	if err != nil || res.Text != "yes" || res.Reasoning != "hm" || res.Usage.InputTokens != 3 || res.Usage.OutputTokens != 4 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Reasoning goes back in the member in which it came, with calls and the answers that follow them.
func TestChat_ReasoningGoesBackAsItCame(t *testing.T) {
	const call = `"tool_calls":[{"index":0,"id":"c","function":{"name":"look","arguments":"{}"}`
	for name, test := range map[string]struct {
		deltas []string
		want   string // of the message in the next request
	}{
		"reasoning_content": {[]string{`"reasoning_content":"h\ud83d"`, `"reasoning_content":"\ude00m"`, call + `}]`}, `"reasoning_content":"h😀m"}`},
		"reasoning":         {[]string{`"reasoning":"hm"`, call + `}]`}, `"reasoning":"hm"}`},
		"reasoning_details": {
			[]string{
				`"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"h","format":"f","index":0}]`,
				`"reasoning_details":[{"type":"reasoning.text","text":"m","index":0,"other":1}]`,
				`"reasoning_details":[{"type":"reasoning.text","signature":"s","index":0},{"type":"reasoning.encrypted","id":"e","data":"d","index":1}]`,
				`"reasoning_details":[{"type":"reasoning.encrypted","data":"d2","index":1}]`, call + `}]`,
			},
			`"reasoning_details":[{"type":"reasoning.text","format":"f","index":0,"text":"hm","signature":"s"},` +
				`{"type":"reasoning.encrypted","id":"e","index":1,"data":"d"},{"type":"reasoning.encrypted","index":1,"data":"d2"}]}`,
		},
		"thinking": {
			[]string{`"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]`, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"}]}]`, `"content":"I look."`, call + `}]`},
			`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"I look."}],"tool_calls"`,
		},
		"extra_content": {
			[]string{call + `,"extra_content":{"google":{"thought_signature":"s"},"other":1}}]`},
			`"arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}]}`,
		},
	} {
		events := make([]string, len(test.deltas))
		for i, d := range test.deltas {
			events[i] = `{"choices":[{"index":0,"delta":{` + d + `}}]}`
		}
		server := llmtest.New(llmtest.Always(llmtest.Events("chat", append(events, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")...)))
		m, stop := model(t, server)
		res, err := m.Stream(t.Context(), llm.Request{Messages: question}, silent)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := m.Stream(t.Context(), llm.Request{Messages: append(slices.Clip(question), llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: res.Parts})}, silent); err != nil {
			t.Error(name, err)
		}
		if body := string(server.Requests()[1].Body); !strings.Contains(body, test.want) {
			t.Errorf("%s: %s", name, body)
		}
		stop()
	}
}

var question = []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}

func silent(llm.Piece) error { return nil }

func model(t *testing.T, server *llmtest.Server) (m *openai.Model, stop func()) {
	t.Helper()
	transport := &http.Transport{}
	m, err := openai.New(openai.Config{Model: "m", BaseURL: server.URL + "/v1", HTTPClient: &http.Client{Transport: transport}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return m, func() {
		transport.CloseIdleConnections()
		server.Close()
	}
}

// OpenAI's models that do not reason refuse the option for encrypted reasoning, once.
func TestResponses_AsksForReasoning(t *testing.T) {
	server := llmtest.New(func(r *llmtest.Request) llmtest.Script {
		if strings.Contains(string(r.Body), "reasoning.encrypted_content") {
			return llmtest.Script{Fail: &llm.Error{Status: 400, Message: "Encrypted content is not supported with this model."}}
		}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}
	})
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	m, err := openai.New(openai.Config{
		Model: "m", APIKey: "k", BaseURL: server.URL + "/v1", HTTPClient: &http.Client{Transport: transport},
		Compat: wire.Compat{Server: "openai"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.Stream(t.Context(), llm.Request{Messages: question}, silent); err != nil {
			t.Error(err)
		}
	}
	if n := len(server.Requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// Google's endpoint for OpenAI's protocol refuses another model's calls in the current turn.
func TestChat_LearnsToSignCalls(t *testing.T) {
	server := llmtest.New(func(r *llmtest.Request) llmtest.Script {
		if !strings.Contains(string(r.Body), `"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}`) {
			return llmtest.Script{Fail: &llm.Error{Status: 400, Message: "Function call is missing a thought_signature in functionCall parts."}}
		}
		return llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}
	})
	m, stop := model(t, server)
	defer stop()
	called := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: "c", FunctionCall: &llms.FunctionCall{Name: "look", Arguments: "{}"}}}}
	if _, err := m.Stream(t.Context(), llm.Request{Messages: append(slices.Clip(question), called)}, silent); err != nil || len(server.Requests()) != 2 {
		t.Errorf("%v after %d requests", err, len(server.Requests()))
	}
}

func TestChat_InvalidAnswer(t *testing.T) {
	_, err := ask(t, openai.Config{API: "chat"}, says(t, `{"choices":[`), llms.CallOptions{})
	if e, ok := err.(*llm.Error); !ok || e.Code != "provider_error" || !e.Retryable { //nolint:errorlint // it is exactly that
		t.Errorf("%#v", err)
	}
}

func TestNew_RequestsSuitServer(t *testing.T) {
	for name, test := range map[string]struct {
		cfg  openai.Config
		want map[string]string // headers
		path string
		has  string // of the body
	}{
		"a server without keys": {openai.Config{}, map[string]string{"Authorization": ""}, "/v1/chat/completions", `"max_tokens":9`},
		"a server with one":     {openai.Config{APIKey: "k"}, map[string]string{"Authorization": "Bearer k"}, "/v1/chat/completions", `"max_tokens":9`},
		"azure": {
			openai.Config{APIKey: "k", APIVersion: "2026-01-01"},
			map[string]string{"Authorization": "", "Api-Key": "k"},
			"/v1/chat/completions?api-version=2026-01-01", `"max_completion_tokens":9`,
		},
		"azure's responses": {
			openai.Config{APIKey: "k", APIVersion: "preview", API: "responses"},
			map[string]string{"Authorization": "", "Api-Key": "k"},
			"/v1/responses?api-version=preview", `"max_output_tokens":9`,
		},
		"responses": {
			openai.Config{APIKey: "k", API: "responses", Headers: map[string]string{"OpenAI-Project": "p"}},
			map[string]string{"Authorization": "Bearer k", "Openai-Project": "p", "Openai-Organization": ""},
			"/v1/responses", `"store":false`,
		},
	} {
		server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}))
		t.Setenv("OPENAI_API_KEY", "not-this")
		t.Setenv("OPENAI_ORG_ID", "nor-this")
		t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
		if _, err := ask(t, test.cfg, server.URL+"/v1", llms.CallOptions{MaxTokens: 9}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		req := server.Requests()[0]
		for header, value := range test.want {
			if got := req.Header.Get(header); got != value {
				t.Errorf("%s: %s: %q, want %q", name, header, got, value)
			}
		}
		if req.Path != test.path || !strings.Contains(string(req.Body), test.has) || !json.Valid(req.Body) {
			t.Errorf("%s: %s %s", name, req.Path, req.Body)
		}
		server.Close()
	}
}

func TestNew_RefusesInvalidConfig(t *testing.T) {
	for want, cfg := range map[string]openai.Config{
		"no model":       {APIKey: "k"},
		"OPENAI_API_KEY": {Model: "m"},
		"neither":        {Model: "m", APIKey: "k", API: "realtime"},
		"not a URL":      {Model: "m", APIKey: "k", BaseURL: "gpu:8000"},
	} {
		if _, err := openai.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}
