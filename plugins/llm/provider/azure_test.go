package provider_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
)

func TestOpen_Azure(t *testing.T) {
	for name, test := range map[string]struct {
		path     string // of the base URL
		cfg      provider.Config
		override string // the model of the request, if it is another
		want     string
	}{
		"a version":        {"", provider.Config{APIVersion: "2025-04-01"}, "", "/openai/deployments/m/chat/completions?api-version=2025-04-01"},
		"a pasted address": {"/openai/deployments/d/chat/completions?api-version=2025-04-01", provider.Config{}, "", "/openai/deployments/d/chat/completions?api-version=2025-04-01"},
		"no version":       {"", provider.Config{Compat: provider.Compat{Server: "azure"}}, "", "/openai/v1/chat/completions"},
		"another model":    {"/openai/deployments/d", provider.Config{APIVersion: "2025-04-01"}, "a/b?", "/openai/deployments/a%2Fb%3F/chat/completions?api-version=2025-04-01"},
		"responses":        {"", provider.Config{API: "responses", APIVersion: "preview"}, "", "/openai/responses?api-version=preview"},
	} {
		server := llmtest.New(llmtest.Strict(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("a")}}), llmtest.Azure))
		transport := &http.Transport{}
		test.cfg.Provider, test.cfg.Model, test.cfg.APIKey, test.cfg.HTTPClient = "openai", "m", key, &http.Client{Transport: transport}
		test.cfg.BaseURL = server.URL + test.path
		m, err := provider.Open(test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		req := question()
		req.Options.Model = test.override
		req.Options.Tools = []llms.Tool{{Function: &llms.FunctionDefinition{Name: "f", Description: strings.Repeat("It is long. ", 200)}}}
		if _, err := m.Stream(t.Context(), req, func(llm.Piece) error { return nil }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if asked := server.Requests(); len(asked) != 1 || asked[0].Path != test.want || asked[0].Header.Get("Api-Key") != key || asked[0].Header.Get("Authorization") != "" {
			t.Errorf("%s: %d requests, the last to %s", name, len(asked), last(server).Path)
		}
		server.Close()
		transport.CloseIdleConnections()
	}
}
