// Package anthropic provides the models of Anthropic.
//
// It does not use Anthropic's own module, which depends on OpenTelemetry and two dozen other modules and adds only types
// for requests that fit on a page here.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Model is a model of Anthropic. It is safe for concurrent use.
type Model struct {
	cfg      Config
	endpoint *wire.Endpoint
}

var (
	_ llm.Streamer = (*Model)(nil)
	_ llm.Reader   = (*Model)(nil)
)

// New returns the model described by cfg, without a request.
func New(cfg Config) (*Model, error) {
	e, err := cfg.Endpoint("anthropic", "https://api.anthropic.com")
	if err != nil {
		return nil, err
	}
	if cfg.APIKey == "" {
		return nil, errors.New("anthropic: an API key is needed: set ANTHROPIC_API_KEY")
	}
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 16_000)
	cfg.BaseURL = strings.TrimSuffix(cfg.BaseURL, "/v1")
	e.Authorize("X-Api-Key", cfg.APIKey)
	e.Authorize("Anthropic-Version", "2023-06-01")
	return &Model{cfg: cfg, endpoint: e}, nil
}

// GenerateContent implements llms.Model. Text is passed to the StreamingFunc of options.
func (m *Model) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return wire.Generate(ctx, m, messages, options...)
}

// Call sends a single prompt.
//
// Deprecated: use GenerateContent.
func (m *Model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}
