package declared_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
)

// model uses every key of an agent with a model, and the directories of programs.
const model = `
agents:
  researcher:
    provider: openai
    model: m
    api: chat
    api_version: 2025-04-01-preview
    compat: {server: mistral, system: user, first: user, bridge: true, content: empty, call_ids: nine, reasoning: none, media: [image/png], tools: 64, description: 1024, schema: json}
    fallback: [{provider: anthropic, model: n, base_url: "http://127.0.0.1:1", api_key: k, compat: {media: []}}]
    history: {tokens: 8000, over: summarise}
    output: structured
    context: [.]
    limits: {max_tokens: 100000}
  scorer: {command: [python3, scorer.py], dir: .}
mcp:
  files: {command: [npx, -y, some-server], dir: ., required: true}
prices: {currency: EUR, models: {m: {input: 0.15, cached_input: 0.075, output: 0.6}, n: {input: 3, output: 15}}}
budgets:
  team: {scope: project, of: p1, per: month, unit: EUR, limit: 0.5, over: ask}
  call: {scope: run, unit: tokens, limit: 1000}
`

func TestLoad_ReadsModels(t *testing.T) {
	set, err := declared.Load(write(t, model), config(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, p := range set.Plugins() {
		switch p := p.(type) {
		case *made:
			got = append(got, p.agent)
		case *box:
			got = append(got, p.server)
		}
	}
	prices, budgets := set.Spending()
	if diff := cmp.Diff(declared.Prices{Currency: "EUR", Models: map[string]*declared.Price{
		"m": {Input: 0.15, CachedInput: 0.075, Output: 0.6}, "n": {Input: 3, Output: 15},
	}}, prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]declared.Budget{
		{Name: "team", Scope: "project", Of: "p1", Per: "month", Unit: "EUR", Limit: 0.5, Over: "ask"}, {Name: "call", Scope: "run", Unit: "tokens", Limit: 1000},
	}, budgets); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
	want := []any{
		declared.Server{Name: "files", Command: []string{"npx", "-y", "some-server"}, Dir: ".", Required: true},
		declared.Agent{
			Name: "researcher", Provider: "openai", Model: "m", API: "chat", APIVersion: "2025-04-01-preview",
			Compat: &declared.Compat{
				Server: "mistral", System: "user", First: "user", Bridge: true, Content: "empty", CallIDs: "nine", Reasoning: "none",
				Media: []string{"image/png"}, Tools: 64, Description: 1024, Schema: "json",
			},
			Fallback: []*declared.Model{{
				Provider: "anthropic", Model: "n", BaseURL: "http://127.0.0.1:1", APIKey: "k", Compat: &declared.Compat{Media: []string{}},
			}},
			History: &declared.History{Tokens: 8000, Over: "summarise"}, Output: &declared.Output{Structured: true}, Context: []string{"."},
			Limits: declared.Limits{MaxTokens: 100_000},
		},
		declared.Agent{Name: "scorer", Command: []string{"python3", "scorer.py"}, Dir: "."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

func TestLoad_ModelErrorsHavePositions(t *testing.T) {
	agent := func(keys string) string { return "agents:\n  a: {provider: openai, model: m, " + keys + "}\n" }
	for _, tt := range []struct{ file, want string }{
		{"prices: {currency: USD, models: {m: {input: cheap}}}\n", `1:45: prices.models.m.input: want a number, not below 0, got "cheap"`},
		{"prices: {currency: USD, models: {m: {input: -1}}}\n", `prices.models.m.input: want a number, not below 0, got "-1"`},
		{"prices: {currency: USD, models: {m: {input: .inf}}}\n", `prices.models.m.input: want a number`},
		{"prices: {currency: USD, models: {m: {imput: 1}}}\n", "prices.models.m.imput: there is no such key; did you mean input?"},
		{"prices: {models: {m: {input: 1}}}\n", "1:1: prices: currency is missing"},
		{"budgets: {b: {scope: project, per: day, limit: 1}}\n", "budgets.b: unit is missing"},
		{"budgets: {b: {scope: project, per: day, unit: tokens}}\n", "budgets.b: limit is missing"},
		{"budgets: {b: {scope: project, per: day, unit: tokens, limit: 0}}\n", "budgets.b.limit: want a number above 0"},
		{"budgets: {b: {scope: project, unit: tokens, limit: 1}}\n", "budgets.b: per is missing"},
		{"budgets: {b: {scope: run, per: day, unit: tokens, limit: 1}}\n", "budgets.b.per: is not for scope run"},
		{"budgets: {b: {scope: all, per: day, unit: tokens, limit: 1}}\n", "budgets.b.scope: want project or user or agent or run"},
		{"budgets: {b: {scope: user, per: week, unit: tokens, limit: 1}}\n", "budgets.b.per: want day or month"},
		{"budgets: {b: {scope: user, per: day, unit: EUR, limit: 1}}\n", `budgets.b.unit: want tokens or the currency of prices, got "EUR"`},
		{agent("fallback: [{provider: ollama, model: mm}]") + "prices: {currency: USD, models: {m: {input: 1}}}\nbudgets: {b: {scope: run, unit: USD, limit: 1}}\n", `agents.a.fallback[0].model: a budget needs its price: prices.models has no "mm"`},
		{agent("fallback: [{model: n}]"), "2:46: agents.a.fallback[0]: provider is missing"},
		{agent("fallback: [{provider: opnai}]"), `agents.a.fallback[0].provider: want openai or anthropic or google or ollama, got "opnai"; did you mean openai?`},
		{agent("fallback: [{provider: openai, base_url: x}]"), "agents.a.fallback[0].base_url: want a URL"},
		{agent("compat: {server: mistrall}"), `agents.a.compat.server: want openai or azure or mistral`},
		{agent("compat: {call_ids: 9}"), `agents.a.compat.call_ids: want any or nine or word or short, got "9"`},
		{agent("api: completions"), `agents.a.api: want chat or responses, got "completions"`},
		{"agents:\n  a: {provider: google, model: m, api: chat}\n", "2:40: agents.a.api: is for provider openai"},
		{"agents:\n  a: {provider: google, model: m, api_version: v1}\n", "agents.a.api_version: is for provider openai"},
		{"agents:\n  a: {provider: google, model: m, compat: {server: vllm}}\n", "agents.a.compat.server: is for provider openai"},
		{"agents:\n  a: {command: [x], compat: {}}\n", "agents.a.compat: is for an agent with a provider"},
		{agent("fallback: [{provider: ollama, api: chat}]"), "agents.a.fallback[0].api: is for provider openai"},
		{agent("tools: ['m.*'], compat: {tools: 2}") + "mcp:\n  m: {url: 'http://x', allow: [a, b, c]}\n", `agents.a.tools[0]: the model takes 2 tools, and there are 3; "m.*" matches 3 of them: narrow it`},
		{agent("history: {tokens: many}"), "agents.a.history.tokens: want a whole number"},
		{agent("history: {over: sumarise}"), `agents.a.history.over: want drop or summarise, got "sumarise"; did you mean summarise?`},
		{agent("output: json"), `agents.a.output: want text, structured or {schema: file.json}, got "json"`},
		{agent("output: {shema: {}}"), "agents.a.output.shema: there is no such key; did you mean schema?"},
		{agent("output: {}"), "2:35: agents.a.output: schema is missing"},
		{agent("output: {schema: nowhere.json}"), "2:52: agents.a.output.schema: open nowhere.json: no such file"},
		{agent("output: {schema: {type: array}}"), "agents.a.output.schema: the schema's type must be object"},
		{agent("output: {schema: {type: object, required: 5}}"), "agents.a.output.schema: no JSON Schema that Baton can use: at '/required'"},
		{
			agent("output: {schema: {type: object, properties: {city: {type: string}}}}") +
				"workflows:\n  w: {nodes: {x: {agent: a}, y: {agent: echo, needs: [x], input: x.output.town}}}\n",
			"workflows.w.nodes.y.input: unknown field town",
		},
		{agent("guard: {input: {agent: b}}"), `2:58: agents.a.guard.input[0].agent: there is no agent "b"`},
		{agent("guard: {input: {agent: a}}"), "agents.a.guard.input[0].agent: an agent cannot guard itself"},
		{agent("guard: {tool: [{tool: calculato}]}"), `agents.a.guard.tool[0].tool: there is no tool "calculato"; did you mean calculator?`},
		{agent("guard: {tool: {expr: 'true'}}"), "agents.a.guard.tool[0]: name is missing"},
		{agent("guard: {tool: {name: g, expr: 'argz.n < 1'}}"), "agents.a.guard.tool[0].expr: unknown name argz (1:1)"},
		{agent("guard: {tool: {name: g, expr: 'output.n < 1'}}"), "agents.a.guard.tool[0].expr: type string has no field n"},
		{agent("guard: {tool: {name: g}}"), "agents.a.guard.tool[0]: agent, expr or tool is missing"},
		{agent("guard: {tool: {name: g, agent: echo, tool: clock}}"), "agents.a.guard.tool[0]: want one of agent, expr or tool, got agent and tool"},
		{agent("guard: {tools: []}"), "agents.a.guard.tools: there is no such key; did you mean tool?"},
		{agent("context: [nowhere]"), `2:45: agents.a.context[0]: there is no directory "nowhere"`},
		{agent("context: ['${SECRET}']"), `there is no directory "${SECRET}"`},
		{agent("dir: ."), "agents.a.dir: is for an agent with a command"},
		{"agents:\n  a: {command: [x], dir: nowhere}\n", `2:26: agents.a.dir: there is no directory "nowhere"`},
		{"agents:\n  a: {command: [x], history: {tokens: 1}}\n", "agents.a.history: is for an agent with a provider"},
		{"agents:\n  a: {command: [x], limits: {max_tokens: 1}}\n", "agents.a.limits.max_tokens: is for an agent with a provider"},
		{"mcp:\n  f: {url: 'http://x', dir: .}\n", "mcp.f.dir: is for a server with a command"},
		{"mcp:\n  f: {url: 'http://x', required: 1}\n", `2:34: mcp.f.required: want true or false, got "1"`},
	} {
		name := write(t, tt.file)
		_, err := declared.Load(name, config(map[string]string{"SECRET": "wrong-key"}), nil)
		found := false
		all, _ := errors.AsType[declared.Errors](err)
		for _, e := range all {
			found = found || strings.Contains(strings.TrimPrefix(e.Error(), name+":"), tt.want)
		}
		if !found || len(all) != 1 || strings.Contains(err.Error(), "wrong-key") {
			t.Errorf("%sgot  %v\nwant %s", tt.file, err, tt.want)
		}
	}
}

// No part of a secret remains in errors if one secret is a prefix of another.
func TestLoad_RedactsOverlappingSecrets(t *testing.T) {
	env := map[string]string{"SHORT": "hunter", "LONG": "hunter-and-more", "LONGER": "hunter-and-more-and-most"}
	file := "prices: {currency: USD, models: {x: {input: 1}}}\nbudgets: {b: {scope: run, unit: USD, limit: 1}}\nagents:\n  a: {provider: openai, model: '${SHORT}', system: '${LONG}', api_key: '${LONGER}', limits: {max_tokens: 1}}\n" +
		"  b: {provider: openai, system: '${LONG}', context: ['${LONGER}']}\n"
	for range 50 { // maps have no order
		_, err := declared.Load(write(t, file), config(env), nil)
		if text := fmt.Sprint(err); !strings.Contains(text, `"${LONGER}"`) || strings.Contains(text, "more") || strings.Contains(text, "hunter") {
			t.Fatalf("got %v", err)
		}
	}
}

// One guard needs no list. Guards are plugins' guards of the same names.
func TestLoad_ReadsGuards(t *testing.T) {
	file := "agents:\n  a: {command: [x], guard: {input: {agent: echo}, output: [{tool: clock}, {name: g, timeout: 3s, expr: \"output == '' ? 'empty' : true\"}]}}\n"
	s, err := declared.Load(write(t, file), config(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	guards := s.Plugins()[0].(*made).agent.Guard.Plugins()
	if err := guards.Validate(); err != nil {
		t.Fatal(err)
	}
	check := guards.Output[1].Check
	guards.Output[1].Check = nil
	want := plugins.Guards{
		Input: []plugins.Guard{{Agent: "echo"}}, Output: []plugins.Guard{{Tool: "clock"}, {Name: "g", Rule: "output == '' ? 'empty' : true", Timeout: 3 * time.Second}},
	}
	if diff := cmp.Diff(want, guards); diff != "" {
		t.Error(diff)
	}
	for output, want := range map[string]plugins.Verdict{"": {Verdict: plugins.Refuse, Reason: "empty"}, "x": {Verdict: plugins.Allow}} {
		if got, err := check(t.Context(), plugins.Subject{Output: output}); err != nil || got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Errorf("%q: %+v, %v", output, got, err)
		}
	}
}

// A schema in a file is read with the declarations, relative to the working directory.
func TestLoad_ReadsSchemas(t *testing.T) {
	t.Chdir(t.TempDir())
	const schema = `{"type": "object", "properties": {"city": {"type": "string"}}}`
	if err := os.WriteFile("city.json", []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]string{
		"{schema: city.json}": schema,
		"{schema: {type: object, properties: {n: {minimum: 0.5}}}}": `{"properties":{"n":{"minimum":0.5}},"type":"object"}`,
	} {
		s, err := declared.Load(write(t, "agents: {a: {provider: openai, output: "+output+"}}\n"), config(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Plugins()[0].(*made).agent.Output.Schema; string(got) != want {
			t.Errorf("%s: %s", output, got)
		}
	}
}

func TestLoad_ChecksDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("notes", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := "agents: {a: {provider: openai, context: [notes]}}\n"
	if _, err := declared.Load(write(t, file), config(nil), nil); err == nil {
		t.Error("a file was accepted as a directory")
	}
	if err := errors.Join(os.Remove("notes"), os.Mkdir("notes", 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := declared.Load(write(t, file), config(nil), nil); err != nil {
		t.Error(err)
	}
}

// OpenAI's models take 128 tools; other servers are not known to have a limit.
func TestLoad_CountsTools(t *testing.T) {
	var names []string
	for i := range 129 {
		names = append(names, fmt.Sprint("t", i))
	}
	file := "agents:\n  a: {provider: openai, model: m, %s tools: ['m.*']}\nmcp:\n  m: {url: 'http://x', allow: [" + strings.Join(names, ", ") + "]}\n"
	for _, test := range []struct{ keys, env, want string }{
		{"", "", `agents.a.tools[0]: the model takes 128 tools, and there are 129; "m.*" matches 129 of them: narrow it`},
		{"base_url: 'https://api.openai.com/v1',", "", "the model takes 128 tools"},
		{"base_url: 'http://gpu:8000/v1',", "", ""},
		{"", "http://gpu:8000/v1", ""},
		{"compat: {tools: 200},", "", ""},
	} {
		_, err := declared.Load(write(t, fmt.Sprintf(file, test.keys)), config(map[string]string{"OPENAI_BASE_URL": test.env}), nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v, want %q", test.keys, test.env, err, test.want)
		}
	}
}
