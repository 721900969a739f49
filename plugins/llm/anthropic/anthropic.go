// Package anthropic provides the models of Anthropic.
//
// It does not use Anthropic's own module, which depends on OpenTelemetry and two dozen other modules and adds only types
// for requests that fit on a page here.
package anthropic

import (
	"cmp"
	"errors"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Model is a model of Anthropic. It is safe for concurrent use.
type Model struct {
	wire.Plain

	cfg      Config
	endpoint *wire.Endpoint
}

var _ llm.Streamer = (*Model)(nil)

var caps = wire.Caps{
	FirstUser: true, IDs: wire.WordID, URLs: true, Schema: wire.AnthropicSchema,
	Media: []string{"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"},
}

// New returns the model described by cfg, without a request.
func New(cfg Config) (*Model, error) {
	e, err := cfg.Endpoint("anthropic", "https://api.anthropic.com", caps)
	if err != nil {
		return nil, err
	}
	if cfg.APIKey == "" {
		return nil, errors.New("anthropic: an API key is needed: set ANTHROPIC_API_KEY")
	}
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 16_000)
	e.Authorize("X-Api-Key", cfg.APIKey)
	e.Authorize("Anthropic-Version", "2023-06-01")
	m := &Model{cfg: cfg, endpoint: e}
	m.Plain = wire.PlainOf(m, e)
	return m, nil
}
