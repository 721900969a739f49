package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEndpoint_UnderstandsPastedAddresses(t *testing.T) {
	for _, test := range []struct{ provider, given, want, version string }{
		{"openai", "http://gpu:8000/v1", "http://gpu:8000/v1", ""},
		{"openai", " http://gpu:8000/v1/\n", "http://gpu:8000/v1", ""},
		{"openai", "http://gpu:8000/v1/chat/completions", "http://gpu:8000/v1", ""},
		{"openai", "http://gpu:8000/v1/chat/completions/", "http://gpu:8000/v1", ""},
		{"openai", "http://gpu:8000/v1/responses", "http://gpu:8000/v1", ""},
		{"openai", "http://gpu:8000", "http://gpu:8000", ""},
		{"openai", "https://api.openai.com", "https://api.openai.com/v1", ""},
		{"openai", "https://api.mistral.ai/", "https://api.mistral.ai/v1", ""},
		{"openai", "https://openrouter.ai", "https://openrouter.ai/api/v1", ""},
		{"openai", "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1", ""},
		{"openai", "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1", ""},
		{"openai", "https://r.openai.azure.com/?api-version=2025-04-01", "https://r.openai.azure.com/openai/deployments/m", "2025-04-01"},
		{"openai", "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2025-04-01", "https://r.openai.azure.com/openai/deployments/d", "2025-04-01"},
		{"openai", "https://r.cognitiveservices.azure.com/openai", "https://r.cognitiveservices.azure.com/openai/v1", ""},
		{"anthropic", "http://x.example/v1/messages", "http://x.example", ""},
		{"anthropic", "http://x.example/proxy/v1", "http://x.example/proxy", ""},
		{"google", "http://x.example/v1beta/models/gemini:streamGenerateContent", "http://x.example", ""},
		{"google", "http://x.example/v1beta/", "http://x.example", ""},
		{"ollama", "http://x.example/api/chat", "http://x.example", ""},
		{"ollama", "http://x.example/proxy/v1", "http://x.example/proxy", ""},
	} {
		cfg := Config{Model: " m ", BaseURL: test.given, APIKey: " key\n"}
		e, err := cfg.Endpoint(test.provider, "", Caps{})
		if err != nil || cfg.BaseURL != test.want || cfg.APIVersion != test.version || e.Secret != "key" || e.Model != "m" {
			t.Errorf("%s %q: %v, %q, version %q, want %q", test.provider, test.given, err, cfg.BaseURL, cfg.APIVersion, test.want)
		}
	}
	cfg := Config{Model: "m", BaseURL: "https://r.openai.azure.com/openai/deployments/d", API: "responses", APIVersion: "preview"}
	if _, err := cfg.Endpoint("openai", "", Caps{}); err != nil || cfg.BaseURL != "https://r.openai.azure.com/openai" {
		t.Errorf("%v, %s", err, cfg.BaseURL)
	}
}

func TestEndpoint_RefusesInvalidConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"no query":            {Model: "m", BaseURL: "http://x.example/v1?key=secret"},
		"no fragment":         {Model: "m", BaseURL: "http://x.example/v1#secret"},
		"not a URL":           {Model: "m", BaseURL: "ftp://secret.example"},
		"no model":            {Model: " ", BaseURL: "http://x.example"},
		"without Bearer":      {Model: "m", BaseURL: "http://x.example", APIKey: "Bearer secret"},
		"a line break":        {Model: "m", BaseURL: "http://x.example", APIKey: "secret\nsecret"},
		"a quote":             {Model: "m", BaseURL: "http://x.example", APIKey: `"secret"`},
		"outside ASCII":       {Model: "m", BaseURL: "http://x.example", APIKey: "secret…"},
		`server "gpt"`:        {Model: "m", BaseURL: "http://x.example", Compat: Compat{Server: "gpt"}},
		"is not a URL such a": {Model: "m", BaseURL: "http://me:secret@/"},
	} {
		if _, err := cfg.Endpoint("openai", "", Caps{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestCompat_ChangesWhatIsKnown(t *testing.T) {
	of := func(url string, c Compat) Caps {
		cfg := Config{Model: "m", BaseURL: url, Compat: c}
		e, err := cfg.Endpoint("openai", "", Caps{Media: []string{"image/png"}, URLs: true})
		if err != nil {
			t.Fatal(err)
		}
		return e.known.caps
	}
	all := Compat{System: "user", First: "user", Bridge: true, Content: "empty", CallIDs: "nine", Reasoning: "none", Media: []string{}, Tools: 64, Description: 1024, Schema: "gemini"}
	want := Caps{System: "user", FirstUser: true, Bridge: true, Content: "empty", IDs: NineID, Reasoning: "none", Media: []string{}, URLs: true, Tools: 64, Description: 1024, Schema: GeminiSchema}
	if diff := cmp.Diff(want, of("http://x.example", all)); diff != "" {
		t.Error(diff)
	}
	none := Caps{Media: []string{"image/png"}, URLs: true}
	if diff := cmp.Diff(none, of("http://x.example", Compat{})); diff != "" {
		t.Error(diff)
	}
	mistral := Caps{Media: []string{"image/png"}, URLs: true, IDs: NineID, Bridge: true, FirstUser: true}
	if diff := cmp.Diff(mistral, of("https://api.mistral.ai/v1", Compat{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(mistral, of("http://x.example", Compat{Server: "mistral"})); diff != "" {
		t.Error(diff)
	}
	mistral.IDs = AnyID
	if diff := cmp.Diff(mistral, of("http://x.example", Compat{Server: "mistral", CallIDs: "any"})); diff != "" {
		t.Error(diff)
	}
	if got := of("https://mistral.ai.example/v1", Compat{}); got.IDs != AnyID {
		t.Error("a server is known by the end of another's host")
	}
}
