// Package anthropic is the models of Anthropic.
//
// It does without Anthropic's own module, which brings OpenTelemetry and two dozen other modules for types of requests
// that are read here in a page.
package anthropic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config says which model is asked, and where.
type Config struct {
	Model   string // needed
	APIKey  string // needed
	BaseURL string // Anthropic's when empty, else what precedes /v1/messages

	// Reasoning is how hard it thinks: low, medium, high or max, by which it decides itself when to think, or a number
	// of tokens for models that want one. When empty it does what the model does by itself.
	Reasoning  string
	MaxTokens  int               // of an answer with its thoughts, where the request does not say; 16 000 when 0
	Headers    map[string]string // sent with every request, such as anthropic-beta
	HTTPClient *http.Client      // one of its own when nil; its time limit is not used
}

// Model is a model of Anthropic. It is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint wire.Endpoint
}

var (
	_ llm.Streamer = (*Model)(nil)
	_ llm.Reader   = (*Model)(nil)
)

// New returns the model that cfg names. It asks nobody.
func New(cfg Config) (*Model, error) {
	if cfg.Model == "" {
		return nil, errors.New("anthropic: no model is named")
	}
	if cfg.APIKey == "" {
		return nil, errors.New("anthropic: an API key is needed: set ANTHROPIC_API_KEY")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = "https://api.anthropic.com"
	}
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens = 16_000
	}
	if base, err := url.Parse(cfg.BaseURL); err != nil || base.Host == "" {
		return nil, fmt.Errorf("anthropic: base URL %q is no URL", cfg.BaseURL)
	}
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1")
	m := &Model{cfg: cfg, endpoint: wire.Endpoint{
		Provider: "anthropic", Model: cfg.Model, Secret: cfg.APIKey, Client: wire.Client(cfg.HTTPClient), Header: http.Header{},
	}}
	m.endpoint.Header.Set("X-Api-Key", cfg.APIKey)
	m.endpoint.Header.Set("Anthropic-Version", "2023-06-01")
	for name, value := range cfg.Headers {
		m.endpoint.Header.Set(name, value)
	}
	return m, nil
}

// GenerateContent asks the model as llms.Model says. The text is shown to the StreamingFunc of options.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return wire.Generate(ctx, m, messages, options...)
}

// Call asks the model a single question.
//
// Deprecated: use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}
