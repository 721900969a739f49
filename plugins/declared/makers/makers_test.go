package makers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/declared/makers"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

// The declared fallback answers with items of the directories as context, within the declared limits.
func TestAll_ModelFollowsDeclaration(t *testing.T) {
	broken := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{
		llmtest.Fault(&llm.Error{Code: "invalid_api_key", Message: "no", Status: 401}),
	}}))
	defer broken.Close()
	call := llmtest.Script{
		Steps: []llmtest.Step{llmtest.Call(0, "c", "gone"), llmtest.Arguments(0, "{}")},
		Usage: &agui.TokenUsage{InputTokens: 1_000_000, OutputTokens: 1_000_000},
	}
	other := llmtest.New(llmtest.Always(call))
	defer other.Close()
	empty, notes := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(notes, "today.txt"), []byte("it rains"), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := makers.All().Model(declared.Agent{
		Name: "a", Provider: "openai", Model: "m", BaseURL: broken.URL + "/v1", APIKey: "k",
		Fallback: []*declared.Model{{Provider: "openai", Model: "n", BaseURL: other.URL + "/v1", APIKey: "k"}},
		History:  &declared.History{Tokens: 100, Over: "summarise"}, Output: &declared.Output{Structured: true}, Context: []string{empty, notes},
		Limits: declared.Limits{MaxSteps: 5, MaxTokens: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	res := plugintest.Run(t, agent, plugintest.Config{Input: plugins.Input{Query: "hi", ContextItemIDs: []string{"today.txt"}}})
	if !strings.Contains(res.Output.Answer, "may take 3 tokens") {
		t.Errorf("answer %q, error %v", res.Output.Answer, res.Err)
	}
	asked := other.Requests()
	if len(broken.Requests()) != 1 || len(asked) != 1 {
		t.Fatalf("the models were asked %d and %d times", len(broken.Requests()), len(asked))
	}
	if body := string(asked[0].Body); !strings.Contains(body, "it rains") || !strings.Contains(body, "key_points") {
		t.Errorf("the other model is asked %s", body)
	}
}

// A model gets the declared form of its server.
func TestAll_ModelFollowsCompat(t *testing.T) {
	server := llmtest.New(llmtest.Strict(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}), llmtest.Mistral))
	defer server.Close()
	agent, err := makers.All().Model(declared.Agent{
		Name: "a", Provider: "openai", Model: "m", BaseURL: server.URL + "/v1/chat/completions", APIKey: "k", API: "chat",
		Compat: &declared.Compat{Server: "mistral"},
	})
	if err != nil {
		t.Fatal(err)
	}
	res := plugintest.Run(t, agent, plugintest.Config{Messages: []agui.Message{
		{ID: "1", Role: agui.RoleUser, Content: "a"},
		{ID: "2", Role: agui.RoleAssistant, ToolCalls: []agui.ToolCall{{ID: "call-1", Name: "f", Arguments: "{}"}}},
		{ID: "3", Role: agui.RoleUser, Content: "b"},
	}})
	if n := len(server.Requests()); res.Output.Answer != "fine" || n != 1 {
		t.Errorf("answer %q after %d requests, error %v", res.Output.Answer, n, res.Err)
	}
	if _, err := makers.All().Model(declared.Agent{Name: "a", Provider: "openai", Model: "m", BaseURL: server.URL, APIKey: "Bearer k"}); err == nil {
		t.Error("a key with Bearer was accepted")
	}
}

// Each request has the declared parameters, of which a 0 is sent, too.
func TestAll_ModelFollowsParameters(t *testing.T) {
	server := llmtest.New(llmtest.Always(llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "baton.yaml")
	text := "agents: {a: {description: d, provider: openai, api: chat, model: m, base_url: '" + server.URL + "/v1', api_key: k, parameters: " +
		"{temperature: 0, top_p: 0.5, max_output_tokens: 90, seed: 7, stop: [END], reasoning: low}}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := declared.Load(file, declared.Config{Makers: makers.All()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	res := plugintest.Run(t, set.Plugins()[0].(plugins.Agent), plugintest.Config{Input: plugins.Input{Query: "hi"}})
	if res.Output.Answer != "fine" {
		t.Fatalf("answer %q, error %v", res.Output.Answer, res.Err)
	}
	for _, want := range []string{`"temperature":0,`, `"top_p":0.5,`, `"seed":7`, `"stop":["END"]`, `"reasoning_effort":"low"`, `_tokens":90`} {
		if body := string(server.Requests()[0].Body); !strings.Contains(body, want) {
			t.Errorf("the request has no %s: %s", want, body)
		}
	}
	for _, wrong := range []declared.Parameters{{Temperature: new(2.1)}, {TopP: new(1.5)}} {
		if _, err := makers.All().Model(declared.Agent{Name: "a", Provider: "openai", Model: "m", BaseURL: server.URL, APIKey: "k", Parameters: wrong}); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

// Each kind of agent has the declared approval of its calls.
func TestAll_AgentsHaveApprovals(t *testing.T) {
	all := makers.All()
	edit := false
	for kind, make := range map[string]func(declared.Agent) (plugins.Agent, error){"provider": all.Model, "agui": all.AGUI, "command": all.Command} {
		a := declared.Agent{
			Name: "a", Provider: "ollama", Model: "m", AGUI: &declared.Endpoint{URL: "http://127.0.0.1:1/"}, Command: []string{"x"},
			Approval: &declared.Approval{Approver: declared.Approver{By: "admin", Not: "requester", Message: "'Go?'", Expires: time.Hour, Edit: &edit}},
		}
		agent, err := make(a)
		if err != nil {
			t.Fatal(err)
		}
		want := plugins.Approver{By: plugins.ByAdmin, NotRequester: true, Message: "'Go?'", Expires: time.Hour, NoEdit: true}
		if info := agent.Info(); !info.Approval || info.Approver != want {
			t.Errorf("%s: %v, %+v", kind, info.Approval, info.Approver)
		}
		a.Approval = nil
		if agent, err = make(a); err != nil || agent.Info().Approval {
			t.Errorf("%s without approval: %+v, %v", kind, agent.Info(), err)
		}
	}
}
