package provider_test

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/batonrun/baton/plugins/llm/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFromEnv_FindsModel(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want provider.Config
	}{
		"openai": {
			map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "other"},
			provider.Config{Provider: "openai", Model: "gpt-5.4-mini", APIKey: "k"},
		},
		"a server like openai's": {
			map[string]string{"OPENAI_BASE_URL": "http://gpu:8000/v1", "OPENAI_MODEL": "m"},
			provider.Config{Provider: "openai", Model: "m", BaseURL: "http://gpu:8000/v1"},
		},
		"anthropic": {
			map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_MODEL": "claude"},
			provider.Config{Provider: "anthropic", Model: "claude", APIKey: "k"},
		},
		"google": {
			map[string]string{"GEMINI_API_KEY": "k", "OLLAMA_HOST": "gpu"},
			provider.Config{Provider: "google", Model: "gemini-flash-latest", APIKey: "k"},
		},
		"ollama": {
			map[string]string{"OLLAMA_HOST": "gpu:11434"},
			provider.Config{Provider: "ollama", Model: "qwen3", BaseURL: "gpu:11434"},
		},
	} {
		got, err := provider.FromEnv(func(name string) string { return test.env[name] })
		if err != nil || !equal(got, test.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
		if _, err := provider.Open(got); err != nil {
			t.Errorf("%s: open: %v", name, err)
		}
	}
	if _, err := provider.FromEnv(func(string) string { return "" }); !errors.Is(err, provider.ErrNone) {
		t.Errorf("an empty environment: %v", err)
	}
}

func equal(a, b provider.Config) bool {
	return a.Provider == b.Provider && a.Model == b.Model && a.BaseURL == b.BaseURL && a.APIKey == b.APIKey
}

func TestOpen_NamesMissingKey(t *testing.T) {
	for name, want := range map[string]string{
		"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GOOGLE_API_KEY", "mistral": "not one of openai", "": "no provider",
	} {
		m, err := provider.Open(provider.Config{Provider: name})
		if err == nil || m != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error about %s", name, m, err, want)
		}
	}
}
