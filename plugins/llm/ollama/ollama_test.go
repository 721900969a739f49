package ollama_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"
	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/ollama"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(t *testing.T, cfg ollama.Config, message llms.MessageContent) error {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	cfg.HTTPClient = &http.Client{Transport: transport}
	m, err := ollama.New(cfg)
	if err != nil {
		return err
	}
	_, err = m.Stream(t.Context(), llm.Request{Messages: []llms.MessageContent{message}}, func(llm.Piece) error { return nil })
	return err
}

func TestStream_ErrorsHaveInstructions(t *testing.T) {
	question := llms.TextParts(llms.ChatMessageTypeHuman, "?")
	server := llmtest.New(llmtest.Always(llmtest.Script{Fail: &llm.Error{Status: 404, Message: "model 'qwen3:4b' not found"}}))
	if err := ask(t, ollama.Config{Model: "qwen3:4b", BaseURL: server.URL}, question); err == nil || !strings.Contains(err.Error(), "ollama pull qwen3:4b") {
		t.Errorf("no model: %v", err)
	}
	server.Close()
	if err := ask(t, ollama.Config{Model: "qwen3:4b", BaseURL: server.URL}, question); err == nil || !strings.Contains(err.Error(), "is Ollama running at "+server.URL) {
		t.Errorf("no server: %v", err)
	}
	guarded := strings.Replace(server.URL, "://", "://me:pass@", 1) + "/?token=pass"
	if err := ask(t, ollama.Config{Model: "qwen3:4b", BaseURL: guarded}, question); err == nil || strings.Contains(err.Error(), "pass") {
		t.Errorf("the address shows a password: %v", err)
	}
	if err := ask(t, ollama.Config{}, question); err == nil || !strings.Contains(err.Error(), "no model is named") {
		t.Errorf("no name: %v", err)
	}
}

func TestNew_AcceptsHosts(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}))
	defer server.Close()
	bare := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(bare, ":")
	for _, host := range []string{server.URL, server.URL + "/", bare, "0.0.0.0:" + port, " localhost:" + port} {
		if err := ask(t, ollama.Config{Model: "m", BaseURL: host}, llms.TextParts(llms.ChatMessageTypeHuman, "?")); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}

func TestStream_ImageURLBecomesText(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}))
	defer server.Close()
	err := ask(t, ollama.Config{Model: "m", BaseURL: server.URL}, llms.MessageContent{
		Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLPart("https://example.com/cat.png")},
	})
	if want := "[an image at https://example.com/cat.png that the model does not take]"; err != nil || !strings.Contains(string(server.Requests()[0].Body), want) {
		t.Errorf("%v, %s", err, server.Requests()[0].Body)
	}
}
