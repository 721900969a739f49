package cmd_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins/llm/llmtest"
)

// TestMain removes model providers from the environment.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		for _, provider := range []string{"OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_", "OLLAMA_"} {
			if strings.HasPrefix(name, provider) {
				_ = os.Unsetenv(name)
			}
		}
	}
	os.Exit(m.Run())
}

// model starts a model that calls the calculator and then answers.
func model(t *testing.T) *llmtest.Server {
	t.Helper()
	s := llmtest.New(llmtest.Each(
		llmtest.Script{Steps: []llmtest.Step{llmtest.Call(0, "c1", "calculator"), llmtest.Arguments(0, `{"expression":`), llmtest.Arguments(0, `"6*7"}`)}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("It is "), llmtest.Text("42.")}},
	))
	t.Cleanup(s.Close)
	return s
}

func TestAssistant_NeedsOnlyKey(t *testing.T) {
	t.Chdir(t.TempDir())
	s := model(t)
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
	r := talk(t, "What is 6 times 7?\n").want(t, 0)
	if want := "→ calculator {\"expression\":\"6*7\"}\n← 42\nIt is 42.\n"; r.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", r.stdout, want)
	}
	asked := s.Requests()
	if len(asked) != 2 || !strings.Contains(string(asked[0].Body), `"calculator"`) || strings.Contains(string(asked[0].Body), `"stubborn"`) {
		t.Errorf("the model was asked %d times, first\n%s", len(asked), asked[0].Body)
	}
}

func TestDeclaredAgent_UsesItsModel(t *testing.T) {
	t.Chdir(t.TempDir())
	s := model(t)
	t.Setenv("KEY", "sk-secret")
	t.Setenv("OPENAI_API_KEY", "sk-other")
	put(t, "baton.yaml", "agents:\n  assistant:\n    provider: openai\n    model: some-model\n    base_url: "+s.URL+"/v1\n"+
		"    api_key: ${KEY}\n    system: Be brief.\n    tools: [calc*]\n    limits: {max_steps: 3}\n")
	r := talk(t, "What is 6 times 7?\n").want(t, 0)
	if !strings.HasSuffix(r.stdout, "← 42\nIt is 42.\n") {
		t.Errorf("got\n%s", r.stdout)
	}
	for _, req := range s.Requests() {
		if key := req.Header.Get("Authorization"); key != "Bearer sk-secret" || !strings.Contains(string(req.Body), "some-model") || !strings.Contains(string(req.Body), "Be brief.") {
			t.Errorf("asked with %s\n%s", key, req.Body)
		}
	}
	put(t, "baton.yaml", "agents:\n  a: {provider: anthropic}\n")
	if r := baton(t.Context(), "check").want(t, 1); !strings.HasPrefix(r.stdout, "baton.yaml:2:3: agents.a: ") {
		t.Errorf("a missing key: %s", r.stdout)
	} else {
		t.Log(r.stdout)
	}
}

func TestInit_WritesAgentForKeyInEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OLLAMA_HOST"} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv(name, "127.0.0.1:1")
			baton(t.Context(), "init").want(t, 0)
			if r := baton(t.Context(), "check"); r.code != 0 || !strings.Contains(r.stdout, "agents.researcher") {
				t.Errorf("exit code %d: %s", r.code, r.stdout)
			}
		})
	}
}

func TestInit_WritesAgentForBaseURLInEnvironment(t *testing.T) {
	for _, key := range []string{"", "sk-secret"} {
		t.Chdir(t.TempDir())
		s := model(t)
		t.Setenv("OPENAI_API_KEY", key)
		t.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
		t.Setenv("OPENAI_MODEL", "some-model")
		baton(t.Context(), "init").want(t, 0)
		r := talk(t, "What is 6 times 7?\n", "researcher").want(t, 0)
		if !strings.HasSuffix(r.stdout, "It is 42.\n") {
			t.Errorf("got\n%s", r.stdout)
		}
		for _, req := range s.Requests() {
			if got := req.Header.Get("Authorization"); strings.TrimPrefix(got, "Bearer ") != key || !strings.Contains(string(req.Body), `"some-model"`) {
				t.Errorf("asked with %q, want the key %q\n%s", got, key, req.Body)
			}
		}
		if text, err := os.ReadFile("baton.yaml"); err != nil || strings.Contains(string(text), "sk-secret") {
			t.Errorf("the file holds the key, or %v:\n%s", err, text)
		}
	}
}

// Show prints a run with the prompts and answers of its calls.
func TestRunsShow_PrintsCallsOfModels(t *testing.T) {
	t.Chdir(t.TempDir())
	s := model(t)
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
	var stdout, stderr output
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- programOf(&stdout, &stderr, "serve", "--listen", "127.0.0.1:0").Run(ctx) }()
	stdout.until(t, "try: baton chat --server http://")
	_, at, _ := strings.Cut(stdout.String(), "--server ")
	at, _, _ = strings.Cut(at, " ")
	at = strings.TrimSpace(at)
	res, err := http.Post(at+"/api/v1/agui/assistant", "application/json", strings.NewReader(`{"threadId":"t","runId":"r-1","messages":[{"id":"m","role":"user","content":"What is\n6 times 7?"}]}`))
	must(t, err)
	_, _ = io.Copy(io.Discard, res.Body) // until it is over
	res.Body.Close()
	r := baton(t.Context(), "runs", "show", "r-1", "--server", at).want(t, 0)
	for _, want := range []string{
		"run r-1 COMPLETED: assistant, thread t, user local\n", "\n  asked: What is\n    6 times 7?\n", "\n  answered: It is 42.\n",
		"\nstep 1 COMPLETED: assistant, took ", "\nmodel call ", " of step 1 finished: openai, ", "\n  tool calculator: ", "\n  parameters {",
		"\n  answered:\n    calls calculator {\"expression\":\"6*7\"} ", "\n  assistant:\n    calls calculator ", ": 42\n  answered: It is 42.\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("want %q in\n%s", want, r.stdout)
		}
	}
	var kinds []string
	for line := range strings.Lines(baton(t.Context(), "runs", "show", "r-1", "--server", at, "--json").want(t, 0).stdout) {
		var part map[string]struct{ ID string }
		if err := json.Unmarshal([]byte(line), &part); err != nil {
			t.Fatal(err, line)
		}
		for kind, p := range part {
			if p.ID == "" {
				t.Errorf("without an id: %s", line)
			}
			kinds = append(kinds, kind)
		}
	}
	if want := "run step modelCall modelCall"; strings.Join(kinds, " ") != want {
		t.Errorf("got lines of %v, want %s", kinds, want)
	}
	if r := baton(t.Context(), "runs", "show", "none", "--server", at).want(t, 1); !strings.Contains(r.stderr, "404 not_found") {
		t.Errorf("got %q", r.stderr)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, &stderr)
	}
}

func TestServe_SuggestsChatWithAssistant(t *testing.T) {
	t.Chdir(t.TempDir())
	s := model(t)
	t.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
	var stdout, stderr output
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() { code <- programOf(&stdout, &stderr, "serve", "--listen", "127.0.0.1:0").Run(ctx) }()
	stdout.until(t, "try: baton chat --server http://")
	_, proposed, _ := strings.Cut(stdout.String(), "try: baton chat ")
	r := talk(t, "What is 6 times 7?\n", strings.Fields(proposed)...).want(t, 0)
	if !strings.HasSuffix(r.stdout, "It is 42.\n") {
		t.Errorf("got\n%s", r.stdout)
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("exit code %d\n%s", got, &stderr)
	}
}

func TestTranscript_MarksCutAnswer(t *testing.T) {
	s := llmtest.New(llmtest.Each(
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("Half of "), llmtest.Cut()}},
		llmtest.Script{Steps: []llmtest.Step{llmtest.Text("All of it.")}},
	))
	t.Cleanup(s.Close)
	t.Setenv("OPENAI_BASE_URL", s.URL+"/v1")
	r := talk(t, "hello\n", "--database", database(t)).want(t, 0)
	if want := "Half of \n… cut short\nAll of it.\n"; r.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", r.stdout, want)
	}
}
