// Package anthropic is the models of Anthropic.
//
// They are asked through Anthropic's own module; the events of an answer are read by what is here, at a fifth of the
// module's cost.
package anthropic

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
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
	messages anthropic.MessageService
}

var _ llm.Streamer = (*Model)(nil)

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
	m := &Model{cfg: cfg, endpoint: wire.Endpoint{
		Provider: "anthropic", Model: cfg.Model, Secret: cfg.APIKey, Client: wire.Client(cfg.HTTPClient),
	}}
	options := []option.RequestOption{ // the module's, which without them tries again and follows its own mind
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1")), option.WithHTTPClient(m.endpoint.Client),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(), option.WithAPIKey(cfg.APIKey),
	}
	for name, value := range cfg.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	m.messages = anthropic.NewMessageService(options...)
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
