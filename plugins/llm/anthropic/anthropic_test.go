package anthropic_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/anthropic"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(t *testing.T, cfg anthropic.Config, messages ...llms.MessageContent) (llm.Response, error) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg.Model, cfg.APIKey, cfg.HTTPClient = "m", "k", &http.Client{Transport: transport}
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m.Stream(t.Context(), llm.Request{Messages: messages}, func(llm.Piece) error { return nil })
}

var question = llms.TextParts(llms.ChatMessageTypeHuman, "?")

func TestStream_CountsCachedTokens(t *testing.T) {
	want := agui.TokenUsage{InputTokens: 100, OutputTokens: 20, CachedInputTokens: 60, CacheWriteInputTokens: 30}
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}, Usage: &want}))
	defer server.Close()
	res, err := ask(t, anthropic.Config{BaseURL: server.URL + "/v1/"}, question)
	want.Provider, want.Model = "anthropic", "m"
	if diff := cmp.Diff(want, res.Usage); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// The prompt is counted before the answer, so the count exists even if the answer is interrupted.
func TestStream_CountsPromptEarly(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}, Usage: &agui.TokenUsage{InputTokens: 100, OutputTokens: 20}}))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	m, err := anthropic.New(anthropic.Config{Model: "m", APIKey: "k", BaseURL: server.URL + "/v1/", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	var first *agui.TokenUsage
	cut := errors.New("cut")
	if _, err := m.Stream(t.Context(), llm.Request{Messages: []llms.MessageContent{question}}, func(p llm.Piece) error {
		first = p.Usage
		return cut
	}); !errors.Is(err, cut) || first == nil || first.InputTokens != 100 || first.Model != "m" {
		t.Errorf("first came %+v, the answer ended with %v", first, err)
	}
}

func TestNew_IgnoresEnvironment(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "not-this")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "nor-this")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Other: 1")
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}))
	defer server.Close()
	if _, err := ask(t, anthropic.Config{BaseURL: server.URL, Headers: map[string]string{"Anthropic-Beta": "b"}}, question); err != nil {
		t.Fatal(err)
	}
	h := server.Requests()[0].Header
	if h.Get("X-Api-Key") != "k" || h.Get("Authorization") != "" || h.Get("X-Other") != "" || h.Get("Anthropic-Beta") != "b" || h.Get("Anthropic-Version") == "" {
		t.Errorf("%v", h)
	}
}

// TestStream_CarriesHiddenReasoning has reasoning that only Anthropic can read, and a call in one piece.
func TestStream_CarriesHiddenReasoning(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"c2VjcmV0"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"look","input":{"at":"cat"}}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`,
			`{"type":"message_stop"}`,
		} {
			fmt.Fprintf(w, "event: x\ndata: %s\n\n", data)
		}
	}))
	defer server.Close()
	res, err := ask(t, anthropic.Config{BaseURL: server.URL}, question)
	if err != nil || len(res.Parts) != 2 || len(res.Calls) != 1 || res.Calls[0].FunctionCall.Arguments != `{"at":"cat"}` {
		t.Fatalf("%+v, %v", res, err)
	}
	said := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: res.Parts}
	steer := llms.TextParts(llms.ChatMessageTypeHuman, "hurry")
	result := llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: "c", Content: "ok"}}}
	if _, err := ask(t, anthropic.Config{BaseURL: server.URL}, question, said, steer, result); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(asked[1], `[{"type":"redacted_thinking","data":"c2VjcmV0"}`) && !strings.Contains(asked[1], `[{"data":"c2VjcmV0","type":"redacted_thinking"}`) {
		t.Errorf("thoughts are not first: %s", asked[1])
	}
	if strings.Index(asked[1], "tool_result") > strings.Index(asked[1], "hurry") {
		t.Errorf("the result is not first: %s", asked[1])
	}
}

func TestStream_ReasoningTokensLeaveRoomForAnswer(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}))
	defer server.Close()
	if _, err := ask(t, anthropic.Config{BaseURL: server.URL, Reasoning: "4096", MaxTokens: 1000}, question); err != nil {
		t.Fatal(err)
	}
	body := string(server.Requests()[0].Body)
	if !strings.Contains(body, `"max_tokens":5096`) || !strings.Contains(body, `"budget_tokens":4096`) {
		t.Error(body)
	}
}
