package provider_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/provider"
)

// served is a provider in the test's process.
type served func(body string) (status int, answer string)

func (s served) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	status, answer := s(string(body))
	return &http.Response{StatusCode: status, Header: http.Header{}, Request: req, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

// An answer in many pieces takes memory in proportion to its length.
func TestStream_TakesLinearMemory(t *testing.T) {
	const pieces = 5000
	word := strings.Repeat("word", 25)
	chat := func(delta string) string { return fmt.Sprintf(`data: {"choices":[{"delta":{%s}}]}`+"\n\n", delta) }
	end := `data: {"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}]}` + "\n\n"
	thinking := `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":%q}}` + "\n\n"
	signature := `data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":%q}}` + "\n\n"
	for name, test := range map[string]struct{ provider, body string }{
		"reasoning_content": {"openai", strings.Repeat(chat(fmt.Sprintf(`"reasoning_content":%q`, word)), pieces) + end},
		"reasoning":         {"openai", strings.Repeat(chat(fmt.Sprintf(`"reasoning":%q`, word)), pieces) + end},
		"reasoning_details": {"openai", strings.Repeat(chat(fmt.Sprintf(`"reasoning_details":[{"type":"reasoning.text","text":%q}]`, word)), pieces) + end},
		"parts":             {"openai", chat(`"content":[`+strings.Repeat(fmt.Sprintf("%q,", word), pieces)+`"end"]`) + end},
		"thinking": {"anthropic", `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}` + "\n\n" +
			strings.Repeat(fmt.Sprintf(thinking, word)+fmt.Sprintf(signature, word), pieces) +
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n" + `data: {"type":"message_stop"}` + "\n\n"},
	} {
		m, err := provider.Open(provider.Config{
			Provider: test.provider, API: map[string]string{"openai": "chat"}[test.provider], Model: "m", APIKey: "key",
			BaseURL: "http://model.test/v1", HTTPClient: &http.Client{Transport: served(func(string) (int, string) { return http.StatusOK, test.body })},
		})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res, err := m.Stream(t.Context(), llm.Request{Messages: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "?")}}, func(llm.Piece) error { return nil })
		runtime.ReadMemStats(&after)
		if n := len(res.Text) + len(res.Reasoning); err != nil || n < pieces*len(word) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 200<<20 {
			t.Errorf("%s: an answer of %d kB took %d MB", name, len(test.body)>>10, took>>20)
		}
	}
}
