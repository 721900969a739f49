// Package provider opens models by the names that configuration and the environment have for them.
package provider

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/anthropic"
	"github.com/batonrun/baton/plugins/llm/google"
	"github.com/batonrun/baton/plugins/llm/ollama"
	"github.com/batonrun/baton/plugins/llm/openai"
)

// Config names a model. What a provider does not have is left to the others.
type Config struct {
	Provider      string            // openai, which is also every server that speaks its protocol; anthropic, google or ollama
	Model         string            // the provider's default model when empty
	BaseURL       string            // the provider's own when empty
	APIKey        string            // needed but for ollama, and for openai at another BaseURL
	Headers       map[string]string // sent with every request
	Reasoning     string            // how hard it thinks: a word, or a number of tokens; the model's own way when empty
	MaxTokens     int               // of an answer; the provider's default when 0
	API           string            // openai: chat or responses
	APIVersion    string            // openai: the api-version of Azure
	ContextTokens int               // ollama: how long a conversation the model sees; the server's default when 0
	HTTPClient    *http.Client      // one of the model's own when nil
}

// The models that are asked where none is named.
const (
	defaultOpenAI    = "gpt-5.4-mini"
	defaultAnthropic = "claude-sonnet-5-5"
	defaultGoogle    = "gemini-flash-latest"
	defaultOllama    = "qwen3"
)

// Open returns the model that cfg names. It asks nobody: a key that is wrong shows with the first answer.
func Open(cfg Config) (llm.Streamer, error) {
	switch cfg.Provider {
	case "openai":
		return open(openai.New(openai.Config{
			Model: or(cfg.Model, defaultOpenAI), BaseURL: cfg.BaseURL, APIKey: cfg.APIKey, API: cfg.API, APIVersion: cfg.APIVersion,
			Reasoning: cfg.Reasoning, MaxTokens: cfg.MaxTokens, Headers: cfg.Headers, HTTPClient: cfg.HTTPClient,
		}))
	case "anthropic":
		return open(anthropic.New(anthropic.Config{
			Model: or(cfg.Model, defaultAnthropic), BaseURL: cfg.BaseURL, APIKey: cfg.APIKey,
			Reasoning: cfg.Reasoning, MaxTokens: cfg.MaxTokens, Headers: cfg.Headers, HTTPClient: cfg.HTTPClient,
		}))
	case "google":
		return open(google.New(google.Config{
			Model: or(cfg.Model, defaultGoogle), BaseURL: cfg.BaseURL, APIKey: cfg.APIKey,
			Reasoning: cfg.Reasoning, MaxTokens: cfg.MaxTokens, Headers: cfg.Headers, HTTPClient: cfg.HTTPClient,
		}))
	case "ollama":
		return open(ollama.New(ollama.Config{
			Model: or(cfg.Model, defaultOllama), BaseURL: cfg.BaseURL, APIKey: cfg.APIKey, ContextTokens: cfg.ContextTokens,
			Reasoning: cfg.Reasoning, MaxTokens: cfg.MaxTokens, Headers: cfg.Headers, HTTPClient: cfg.HTTPClient,
		}))
	case "":
		return nil, errors.New("no provider is named: openai, anthropic, google or ollama")
	}
	return nil, fmt.Errorf("provider %q is none of openai, anthropic, google and ollama", cfg.Provider)
}

// open keeps a model that could not be made from looking like one.
func open[M llm.Streamer](m M, err error) (llm.Streamer, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ErrNone is that the environment names no model.
var ErrNone = errors.New("no model: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_API_KEY or OLLAMA_HOST")

// FromEnv returns the model that the environment names, the first of these, or ErrNone:
//
//	OPENAI_API_KEY     OPENAI_MODEL     OPENAI_BASE_URL, which is enough where a server needs no key
//	ANTHROPIC_API_KEY  ANTHROPIC_MODEL  ANTHROPIC_BASE_URL
//	GOOGLE_API_KEY     GOOGLE_MODEL     GOOGLE_BASE_URL (and GEMINI_API_KEY)
//	OLLAMA_HOST        OLLAMA_MODEL
//
// The Config has a Model even where the environment names none.
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

// Of returns what the environment says of one provider, by the variables of FromEnv.
func Of(name string, getenv func(string) string) Config {
	cfg := Config{Provider: name}
	switch name {
	case "openai":
		cfg.Model = or(getenv("OPENAI_MODEL"), defaultOpenAI)
		cfg.APIKey, cfg.BaseURL = getenv("OPENAI_API_KEY"), getenv("OPENAI_BASE_URL")
	case "anthropic":
		cfg.Model = or(getenv("ANTHROPIC_MODEL"), defaultAnthropic)
		cfg.APIKey, cfg.BaseURL = getenv("ANTHROPIC_API_KEY"), getenv("ANTHROPIC_BASE_URL")
	case "google":
		cfg.Model = or(getenv("GOOGLE_MODEL"), defaultGoogle)
		cfg.APIKey, cfg.BaseURL = or(getenv("GOOGLE_API_KEY"), getenv("GEMINI_API_KEY")), getenv("GOOGLE_BASE_URL")
	case "ollama":
		cfg.Model = or(getenv("OLLAMA_MODEL"), defaultOllama)
		cfg.APIKey, cfg.BaseURL = getenv("OLLAMA_API_KEY"), getenv("OLLAMA_HOST")
	}
	return cfg
}

// or returns s, or other for an empty one.
func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
