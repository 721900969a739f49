package clients

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/runtime/agui"
)

// aimock starts the public fake of providers, and returns its URL.
func aimock(t *testing.T) string {
	t.Helper()
	needs(t, "aimock")
	cmd := exec.CommandContext(t.Context(), "node_modules/.bin/llmock", "-p", "0", "-f", "fixtures.json")
	cmd.Dir = "aimock"
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = cmd.Stdout
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "listening on "); ok {
			go func() { // ends with the program, which is not to wait for a reader
				for lines.Scan() {
				}
			}()
			return strings.TrimSpace(url)
		}
	}
	t.Fatal("aimock ended while starting")
	return ""
}

// fakes are the configurations of the protocols that aimock speaks.
func fakes(url string) map[string]provider.Config {
	return map[string]provider.Config{
		"chat":      {Provider: "openai", API: "chat", BaseURL: url + "/v1"},
		"responses": {Provider: "openai", API: "responses", BaseURL: url + "/v1"},
		"azure":     {Provider: "openai", API: "chat", APIVersion: "2025-04-01-preview", BaseURL: url},
		"anthropic": {Provider: "anthropic", BaseURL: url},
		"google":    {Provider: "google", BaseURL: url},
		"ollama":    {Provider: "ollama", BaseURL: url},
		"malformed": {Provider: "openai", API: "chat", BaseURL: url + "/v1", Headers: map[string]string{"x-aimock-chaos-malformed": "1.0"}},
	}
}

// talk returns the answer of an agent to a message on a thread of its own, or the code of its failure, and its events.
func talk(t *testing.T, url, agent, text string) (string, []agui.Event) {
	t.Helper()
	body, err := json.Marshal(object{"content": text, "threadId": agent, "protocolVersion": "1.0"})
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/api/v1/agui/"+agent, strings.NewReader(string(body)))
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	var answer string
	var list []agui.Event
	for _, raw := range stream(t, req) {
		ev, err := agui.Decode(raw)
		must(t, err)
		switch e := ev.(type) {
		case agui.TextMessageContent:
			answer += e.Delta
		case agui.RunError:
			answer = e.Code
		}
		list = append(list, ev)
	}
	return answer, list
}

// Agents of all protocols work with a fake of providers that others wrote.
func TestModels(t *testing.T) {
	t.Parallel()
	fake := aimock(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	plugs := builtin.Plugins()
	for name, cfg := range fakes(fake) {
		cfg.Model, cfg.APIKey, cfg.Log = "m", "key", log
		m, err := provider.Open(cfg)
		must(t, err)
		a, err := llm.New(llm.Config{Name: name, Model: m, Tools: []string{"calculator"}, Retries: -1, Log: log})
		must(t, err)
		plugs = append(plugs, a)
	}
	b, err := baton.New(baton.Config{Database: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Plugins: plugs, Log: log})
	if err == nil {
		err = b.Start(t.Context())
	}
	must(t, err)
	srv := httptest.NewServer(b.Handler())
	defer srv.Close()
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name := range fakes(fake) {
		if name == "malformed" {
			if got, _ := talk(t, srv.URL, name, "hello"); got != "provider_error" {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		for _, turn := range [][2]string{
			{"hello", "Hello, world: ünï 🙂"},
			{"too fast", "rate_limited"},
			{"look twice", "I have looked twice."},
			{"broken", "provider_error"},
			{"think", "It is 42."},
			{"look twice", "I have looked twice."},
			{"hello", "Hello, world: ünï 🙂"},
		} {
			got, events := talk(t, srv.URL, name, turn[0])
			if got != turn[1] {
				t.Errorf("%s: %s: %q, want %q", name, turn[0], got, turn[1])
			}
			var list []string
			for _, r := range results(events) {
				list = append(list, r.Content)
			}
			if slices.Sort(list); turn[0] == "look twice" && !slices.Equal(list, []string{"2", "42"}) {
				t.Errorf("%s: results %q", name, list)
			}
		}
	}
	res, err := http.Get(fake + "/__aimock/journal")
	must(t, err)
	defer res.Body.Close()
	var journal []struct {
		Path     string
		Response struct{ Status int }
	}
	must(t, json.NewDecoder(res.Body).Decode(&journal))
	for _, entry := range journal {
		if entry.Response.Status == http.StatusBadRequest || entry.Response.Status == http.StatusNotFound {
			t.Errorf("%s was refused with %d", entry.Path, entry.Response.Status)
		}
	}
	if len(journal) < 6*9 {
		t.Errorf("the fake has seen %d requests", len(journal))
	}
}
