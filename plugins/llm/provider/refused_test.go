package provider_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/pace"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// thinker is a provider whose answers carry reasoning.
type thinker struct {
	config   provider.Config
	thinks   string // an answer with reasoning
	says     string // one without
	requests []string
	model    llm.Streamer
}

var thinkers = map[string]thinker{
	"anthropic": {
		config: provider.Config{Provider: "anthropic", BaseURL: "http://model.test"},
		thinks: `data: {"type":"content_block_start","index":0,"content_block":{"type":"redacted_thinking","data":"eHg="}}` + "\n\n",
		says: `data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"done"}}` + "\n\n" +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n",
	},
	"responses": {
		config: provider.Config{Provider: "openai", API: "responses", BaseURL: "http://model.test/v1"},
		thinks: `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","encrypted_content":"x","summary":[]}}` + "\n\n",
		says: `data: {"type":"response.output_text.delta","output_index":1,"delta":"done"}` + "\n\n" +
			`data: {"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\n",
	},
}

// refusing returns a thread whose answer carries data, and a model that refuses requests with mark with a sentence.
func refusing(t *testing.T, name, mark, sentence string, data ...string) (p *thinker, messages []agui.Message) {
	t.Helper()
	own := thinkers[name]
	p, answer := &own, own.thinks+own.says
	cfg := p.config
	cfg.Model, cfg.APIKey, cfg.Log = "m", "key", slog.New(slog.DiscardHandler)
	cfg.HTTPClient = &http.Client{Transport: served(func(body string) (int, string) {
		p.requests = append(p.requests, body)
		if strings.Contains(body, mark) {
			refusal, _ := json.Marshal(map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": sentence}})
			return http.StatusBadRequest, string(refusal)
		}
		return http.StatusOK, answer
	})}
	m, err := provider.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.model = m
	res := p.run(t, []agui.Message{{ID: "1", Role: agui.RoleUser, Content: "question"}})
	messages = append(res.Messages(), agui.Message{ID: "3", Role: agui.RoleUser, Content: "and now?"})
	var value struct {
		Origin string `json:"origin"`
	}
	if err := json.Unmarshal([]byte(messages[1].EncryptedValue), &value); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, d := range data {
		parts = append(parts, fmt.Sprintf(`{"data":%s}`, d))
	}
	hash := sha256.Sum256([]byte("done"))
	messages[1].EncryptedValue = fmt.Sprintf(`{"origin":%q,"sum":%q,"parts":[%s,{"text":4}]}`, value.Origin, hex.EncodeToString(hash[:4]), strings.Join(parts, ","))
	p.requests, answer = nil, p.says
	return p, messages
}

func (p *thinker) run(t *testing.T, messages []agui.Message) *plugintest.Result {
	t.Helper()
	a, err := llm.New(llm.Config{Name: "a", Model: p.model, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.Run(t, a, plugintest.Config{Messages: messages})
}

// Carried data is left out after a refusal in any words.
func TestThread_SurvivesRefusedReasoning(t *testing.T) {
	thinking := `{"type":"thinking","thinking":"t","signature":"s"}`
	for sentence, test := range map[string]struct{ name, mark, data string }{
		"messages.1.content.0: Invalid `data` in `redacted_thinking` block":                                                                                             {"anthropic", `redacted_thinking`, `{"type":"redacted_thinking","data":"eA=="}`},
		"messages.1.content.0.thinking: each thinking block must contain thinking":                                                                                      {"anthropic", `"signature"`, `{"type":"thinking","thinking":"","signature":"s"}`},
		"messages.1.content.0: If an assistant message contains any thinking blocks, the first block must be `thinking` or `redacted_thinking`. Found `text`.":          {"anthropic", `"signature"`, thinking},
		"messages.1.content.0: When providing `thinking` or `redacted_thinking` blocks, the blocks must match the parameters during the original request.":              {"anthropic", `"signature"`, thinking},
		"When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`. To use thinking blocks, enable `thinking` in your request.": {"anthropic", `"signature"`, thinking},
		"messages.1.content.0: Invalid `signature` in `thinking` block":                                                                                                 {"anthropic", `"signature"`, thinking},
		"Invalid 'input[1].id': 'item_x'. Expected an ID that begins with 'rs'.":                                                                                        {"responses", `"item_x"`, `{"type":"reasoning","id":"item_x","encrypted_content":"e","summary":[]}`},
		"Duplicate item found with id rs_1. Remove duplicate items from your input and try again.":                                                                      {"responses", `"rs_1"`, `{"type":"reasoning","id":"rs_1","encrypted_content":"e","summary":[]}`},
	} {
		p, messages := refusing(t, test.name, test.mark, sentence, test.data)
		for range 2 {
			if res := p.run(t, messages); res.Err != nil {
				t.Errorf("%v", res.Err)
			}
		}
		if n := len(p.requests); n != 3 || !strings.Contains(p.requests[0], test.mark) {
			t.Errorf("%s: %d requests: %s", sentence, n, p.requests)
		}
	}
}

// A value with more data than an answer has is not given to the model.
func TestThread_SurvivesForgedReasoning(t *testing.T) {
	var data []string
	for i := range 1300 {
		data = append(data, fmt.Sprintf(`{"type":"thinking","thinking":"","signature":"%d"}`, i))
	}
	p, messages := refusing(t, "anthropic", `"signature"`, "messages.1.content.0: Invalid `signature` in `thinking` block", data...)
	for range 3 {
		if res := p.run(t, messages); res.Err != nil {
			t.Errorf("%v", res.Err)
		}
	}
	if n := len(p.requests); n != 3 {
		t.Errorf("%d requests", n)
	}
}

// Answers that a model has spoiled do not open the breaker: one user's requests can cause them.
func TestPace_SpoiledAnswerIsNotAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range []string{"malformed_function_call", "unexpected_tool_call", "too_many_tool_calls", "missing_thought_signature", "malformed_response"} {
			pacer, requests := pace.New(), 0
			m, err := provider.Open(provider.Config{
				Provider: "openai", API: "chat", Model: "m", APIKey: "key", BaseURL: "http://model.test/v1", Pace: pacer,
				HTTPClient: &http.Client{Transport: served(func(string) (int, string) {
					requests++
					return http.StatusOK, `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"` + reason + `"}]}` + "\n\n"
				})},
			})
			if err != nil {
				t.Fatal(err)
			}
			res := run(t, llm.Config{Name: "a", Model: m})
			var failed *plugins.Error
			if !errors.As(res.Err, &failed) || failed.Code != "bad_answer" || requests != 4 || pacer.Model("m").Down() != nil {
				t.Errorf("%s: %v after %d requests, %v", reason, res.Err, requests, pacer.Model("m").Down())
			}
		}
	})
}

// Data of a model that was replaced takes no room in the prompt.
func TestCarried_OfAnotherModelTakesNoHistory(t *testing.T) {
	m, err := provider.Open(provider.Config{
		Provider: "openai", Model: "m", BaseURL: "http://model.test/v1", APIKey: key, HTTPClient: &http.Client{Transport: transport(func() *http.Response { return answering("done") })},
	})
	if err != nil {
		t.Fatal(err)
	}
	for origin, want := range map[string]int{"openai/gone@00000000": 6, m.(llm.Carrier).Origin(""): 1} {
		var messages []agui.Message
		for i := range 6 {
			sum := sha256.Sum256([]byte("answer"))
			value := fmt.Sprintf(`{"origin":%q,"sum":%q,"parts":[{"data":{"reasoning_content":%q}},{"text":6}]}`, origin, hex.EncodeToString(sum[:4]), strings.Repeat("e", 100_000))
			messages = append(messages,
				agui.Message{ID: fmt.Sprint("q", i), Role: agui.RoleUser, Content: "question"},
				agui.Message{ID: fmt.Sprint("a", i), Role: agui.RoleAssistant, Content: "answer", EncryptedValue: value, Metadata: json.RawMessage(`{"agent":"a"}`)})
		}
		messages = append(messages, agui.Message{ID: "last", Role: agui.RoleUser, Content: "and now?"})
		agent, err := llm.New(llm.Config{Name: "a", Model: m})
		if err != nil {
			t.Fatal(err)
		}
		res := plugintest.Run(t, agent, plugintest.Config{Messages: messages})
		dropped := 0
		for _, ev := range res.Events {
			var c agui.Compaction
			if e, ok := ev.(agui.Custom); ok && e.Name == agui.CompactedEvent && json.Unmarshal(e.Value, &c) == nil {
				dropped = c.Dropped
			}
		}
		if kept := 6 - dropped; kept != want {
			t.Errorf("%s: %d turns are in the prompt, want %d", origin, kept, want)
		}
	}
}
