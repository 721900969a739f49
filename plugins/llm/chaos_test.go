package llm_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/llm"
	"github.com/batonrun/baton/plugins/llm/llmtest"
	"github.com/batonrun/baton/plugins/llm/provider"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// moody is a provider that misbehaves while odd is set, and otherwise plays healthy but refuses what the real one does.
type moody struct {
	config  provider.Config
	rules   []llmtest.Rule
	odd     atomic.Bool
	healthy atomic.Pointer[func(*llmtest.Request) llmtest.Script]
	server  *llmtest.Server
}

func providers() map[string]*moody {
	chat, responses := provider.Config{Provider: "openai", API: "chat"}, provider.Config{Provider: "openai", API: "responses"}
	all := map[string]*moody{
		"mistral":   {config: chat, rules: []llmtest.Rule{llmtest.Mistral, llmtest.OpenAI}},
		"template":  {config: chat, rules: []llmtest.Rule{llmtest.MistralTemplate, llmtest.OpenAI}},
		"lmstudio":  {config: chat, rules: []llmtest.Rule{llmtest.LMStudio, llmtest.OpenAI}},
		"hunyuan":   {config: chat, rules: []llmtest.Rule{llmtest.Hunyuan, llmtest.OpenAI}},
		"kimi":      {config: chat, rules: []llmtest.Rule{llmtest.Kimi, llmtest.OpenAI}},
		"openai":    {config: chat, rules: []llmtest.Rule{llmtest.OpenAI}},
		"responses": {config: responses, rules: []llmtest.Rule{llmtest.Responses}},
		"anthropic": {config: provider.Config{Provider: "anthropic"}, rules: []llmtest.Rule{llmtest.Anthropic}},
		"google":    {config: provider.Config{Provider: "google"}, rules: []llmtest.Rule{llmtest.Gemini}},
		"ollama":    {config: provider.Config{Provider: "ollama"}, rules: []llmtest.Rule{llmtest.Ollama}},
	}
	for seed := range uint64(6) {
		all[fmt.Sprint("stranger", seed)] = &moody{config: chat, rules: []llmtest.Rule{llmtest.Stranger(seed), llmtest.OpenAI}}
	}
	return all
}

// agent starts the provider's server and returns an agent that uses it.
func (m *moody) agent(t *testing.T, name string, seed uint64) *llm.Agent {
	t.Helper()
	chaos := llmtest.Chaos(seed)
	m.server = llmtest.New(func(r *llmtest.Request) llmtest.Script {
		if m.odd.Load() {
			return chaos(r)
		}
		return llmtest.Strict(*m.healthy.Load(), m.rules...)(r)
	})
	t.Cleanup(m.server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	m.config.Model, m.config.APIKey, m.config.BaseURL = "m", "key", m.server.URL
	if m.config.Provider == "openai" {
		m.config.BaseURL += "/v1"
	}
	m.config.HTTPClient, m.config.Log = &http.Client{Transport: transport}, slog.New(slog.DiscardHandler)
	model, err := provider.Open(m.config)
	if err != nil {
		t.Fatal(err)
	}
	return newAgent(t, llm.Config{
		Name: name, Model: model, System: "Be brief.", Tools: []string{"*"}, Retries: 1, Steps: 4, Timeout: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
}

// counter counts calls of a tool by their ids.
type counter struct {
	mu    sync.Mutex // guards calls
	calls map[string]int
}

func (c *counter) tool(name string) tool {
	return tool{plugins.Info{Name: name}, func(_ context.Context, call *plugins.Call) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[call.ID]++
		return name + " done", nil
	}}
}

// A provider that misbehaves in a new way at each request spoils neither a thread nor the next turn: each run ends with an answer
// or a documented code, and no call is made twice.
func TestAgent_SurvivesChaos(t *testing.T) {
	turns := 3
	if os.Getenv("BATON_SOAK") != "" {
		turns = 100
	}
	codes := documented(t)
	calls := &counter{calls: make(map[string]int)}
	all := providers()
	plugs := []plugins.Plugin{calls.tool("look"), calls.tool("lookup"), calls.tool("now")}
	seeds := make(map[string]uint64)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		seeds[name] = uint64(len(seeds) + 1)
		plugs = append(plugs, all[name].agent(t, name, seeds[name]))
	}
	b := open(t, plugs...)
	t.Run("threads", func(t *testing.T) {
		for name, m := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				chance := rand.New(rand.NewPCG(seeds[name], 0)) //nolint:gosec // no secret
				for turn := range turns {
					m.odd.Store(true)
					cancelAt := math.MaxInt
					if chance.IntN(8) == 0 {
						cancelAt = len(m.server.Requests()) + 1 + chance.IntN(3)
					}
					s := b.say(t, name, fmt.Sprint("odd ", turn))
					run := b.ended(t, s.RunID, func() bool { return len(m.server.Requests()) >= cancelAt })
					switch {
					case run.Status == runtime.Completed && *run.OutputSummary != "", run.Status == runtime.Cancelled:
					case run.Status == runtime.Failed && slices.Contains(codes, run.Error.Code) && run.Error.Message != "":
					default:
						t.Errorf("turn %d: %s with %+v", turn, run.Status, run.Error)
					}
					m.odd.Store(false)
					m.plays(turn)
					if run := b.ended(t, b.say(t, name, fmt.Sprint("healthy ", turn)).RunID, nil); run.Status != runtime.Completed || *run.OutputSummary != "fine" {
						sent := m.server.Requests()
						t.Fatalf("turn %d spoiled the next one: %s, %+v, asked %s", turn, run.Status, run.Error, sent[len(sent)-1].Body)
					}
				}
				b.eventsOf(name)
			})
		}
	})
	for id, n := range calls.calls {
		if n > 1 {
			t.Errorf("call %s was made %d times", id, n)
		}
	}
	if len(calls.calls) < turns {
		t.Errorf("only %d calls were made", len(calls.calls))
	}
}

// plays makes the provider healthy, in every other turn with calls.
func (m *moody) plays(turn int) {
	fine := llmtest.Script{Steps: []llmtest.Step{llmtest.Text("fine")}}
	answer := llmtest.Each(fine)
	if turn%2 == 0 {
		answer = llmtest.Each(llmtest.Script{Steps: []llmtest.Step{
			llmtest.Reasoning("Hm"), llmtest.Call(0, "call_1", "look"), llmtest.Arguments(0, `{"at":1}`), llmtest.Call(1, "call_2", "now"),
		}}, fine)
	}
	m.healthy.Store(&answer)
}

// documented returns the codes of failures in docs.
func documented(t *testing.T) (codes []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.FromSlash("../../docs/agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| code | meaning | repeated |")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		codes = append(codes, regexp.MustCompile("[a-z_]+").FindAllString(cells[min(1, len(cells)-1)], -1)...)
	}
	if len(codes) < 15 {
		t.Fatalf("the page has only the codes %q", codes)
	}
	return append(codes, "timeout")
}

func (b *bench) say(t *testing.T, agent, text string) runtime.Started {
	t.Helper()
	s, err := b.StartRun(t.Context(), local, runtime.StartRequest{
		Agent: agent, ThreadID: agent, Messages: []agui.Message{{Role: agui.RoleUser, Content: text}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ended waits for the end of a run, which it cancels once cancel returns true.
func (b *bench) ended(t *testing.T, run string, cancel func() bool) runtime.Run {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); {
		r, err := b.Runs.Get(t.Context(), local, run)
		if err != nil {
			t.Fatal(err)
		}
		if r.Status.Final() {
			return r
		}
		if cancel != nil && cancel() {
			_, _ = b.Cancel(t.Context(), local, run) // it can have ended
			cancel = nil
		}
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("run %s does not end", run)
	return runtime.Run{}
}
