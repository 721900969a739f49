// Package provider opens models by their names in configuration and the environment.
package provider

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/anthropic"
	"github.com/batonrun/baton/plugins/llm/google"
	"github.com/batonrun/baton/plugins/llm/ollama"
	"github.com/batonrun/baton/plugins/llm/openai"
	"github.com/batonrun/baton/plugins/llm/wire"
)

// Config describes a model and how to reach it.
type Config = wire.Config

// Compat describes the capabilities of a server.
type Compat = wire.Compat

// defaults are the models used if none is named.
var defaults = map[string]string{
	"openai": "gpt-5.4-mini", "anthropic": "claude-sonnet-5-5", "google": "gemini-flash-latest", "ollama": "qwen3",
}

// Open returns the model described by cfg. It makes no request: an invalid key shows with the first answer.
func Open(cfg Config) (llm.Streamer, error) {
	cfg.Model = cmp.Or(cfg.Model, defaults[cfg.Provider])
	switch cfg.Provider {
	case "openai":
		return open(openai.New(cfg))
	case "anthropic":
		return open(anthropic.New(cfg))
	case "google":
		return open(google.New(cfg))
	case "ollama":
		return open(ollama.New(cfg))
	case "":
		return nil, errors.New("no provider is named: openai, anthropic, google or ollama")
	}
	return nil, fmt.Errorf("provider %q is not one of openai, anthropic, google and ollama", cfg.Provider)
}

// open returns a nil interface for a failed model.
func open[M llm.Streamer](m M, err error) (llm.Streamer, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ErrNone is returned if the environment names no model.
var ErrNone = errors.New("no model: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or OLLAMA_HOST")

// FromEnv returns the first model that the environment names, or ErrNone:
//
//	OPENAI_API_KEY     OPENAI_MODEL     OPENAI_BASE_URL, which alone suffices for a server without keys
//	ANTHROPIC_API_KEY  ANTHROPIC_MODEL  ANTHROPIC_BASE_URL
//	GOOGLE_API_KEY     GOOGLE_MODEL     GOOGLE_BASE_URL (and GEMINI_API_KEY)
//	OLLAMA_HOST        OLLAMA_MODEL
//
// The Config always has a Model, by default the provider's default model.
func FromEnv(getenv func(string) string) (Config, error) {
	for _, name := range []string{"openai", "anthropic", "google", "ollama"} {
		cfg := Of(name, getenv)
		switch {
		case name == "ollama" && cfg.BaseURL == "":
		case cfg.APIKey == "" && (cfg.BaseURL == "" || name == "anthropic" || name == "google"):
		default:
			return cfg, nil
		}
	}
	return Config{}, ErrNone
}

// Of returns the environment's settings for one provider; see FromEnv.
func Of(name string, getenv func(string) string) Config {
	cfg := Config{Provider: name}
	switch name {
	case "openai", "anthropic", "google":
		prefix := strings.ToUpper(name)
		cfg.Model, cfg.APIKey, cfg.BaseURL = getenv(prefix+"_MODEL"), getenv(prefix+"_API_KEY"), getenv(prefix+"_BASE_URL")
	case "ollama":
		cfg.Model, cfg.APIKey, cfg.BaseURL = getenv("OLLAMA_MODEL"), getenv("OLLAMA_API_KEY"), getenv("OLLAMA_HOST")
	}
	if name == "google" {
		cfg.APIKey = cmp.Or(cfg.APIKey, getenv("GEMINI_API_KEY"))
	}
	cfg.Model = cmp.Or(cfg.Model, defaults[name])
	return cfg
}
