package declared_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/builtin"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
)

// made is a plugin that returns its declaration.
type made struct {
	name  string
	agent declared.Agent
}

func (m *made) Info() plugins.Info { return plugins.Info{Name: m.name} }

func (m *made) Run(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
	return agui.WorkerOutput{}, nil
}

// box is a toolbox that returns its declaration.
type box struct{ server declared.Server }

func (b *box) Info() plugins.Info    { return plugins.Info{Name: b.server.Name} }
func (b *box) Tools() []plugins.Tool { return nil }

func makeAgent(a declared.Agent) (plugins.Agent, error) {
	if a.APIKey == "wrong-key" {
		return nil, fmt.Errorf("the provider cannot use the key %q", a.APIKey)
	}
	return &made{a.Name, a}, nil
}

func config(env map[string]string) declared.Config {
	return declared.Config{
		Offered: builtin.Plugins(),
		Getenv: func(name string) (string, bool) {
			v, ok := env[name]
			return v, ok
		},
		Makers: declared.Makers{
			Model: makeAgent, AGUI: makeAgent, Command: makeAgent,
			Server: func(s declared.Server) (plugins.Toolbox, error) { return &box{s}, nil },
		},
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "baton.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// all uses every key.
const all = `
listen: 127.0.0.1:1 # not ours
agents:
  researcher:
    description: Finds things out.
    provider: openai
    model: gpt-4o-mini
    base_url: "http://127.0.0.1:1/v1"
    api_key: "${KEY}"
    system: "Costs $${KEY}, $5 and 100 $"
    tools: [calculator, files.*, writer]
    limits: {timeout: 2m, max_steps: 12, concurrency: 8}
    projects: [p1, "2"]
  writer: {agui: {url: "http://127.0.0.1:1/agui", headers: {Authorization: "Bearer ${TOKEN}", X-N: 3}, stop: "http://127.0.0.1:1/stop/{threadId}"}}
  scorer: {command: [python3, scorer.py], env: {DEBUG: true}}
mcp:
  files: {command: [npx, -y, some-server], allow: [read_file, write_file], approval: [write_file], timeout: 5s}
  docs:  {url: "http://127.0.0.1:1/mcp", headers: {A: b}, projects: [p1]}
workflows:
  triage:
    description: Sorts.
    projects: [p1]
    nodes:
      plan: {agent: researcher}
      score: {agent: scorer, needs: [plan], retry: 3, timeout: 30s, on_error: continue}
      draft: {agent: scorer, retry: {max: 2, on: [busy], backoff: 1s, max_delay: 1m}, repeat: {until: draft.round == 2, max: 3, on_max: fail}, on_error: fail}
      publish:
        tool: files.write_file
        input: {path: "'out.md'", content: "plan.answer // all of it", n: 3, deep: {list: ["query", null]}}
        needs: [plan, score]
        when: "score.status == 'success'"
        wait: {until: "'09:00 Europe/Berlin'"}
        approval: required
      pause: {wait: {for: 1d12h}}
      paid: {wait: {event: paid, within: 2d}}
      choice: {ask: {message: "'Which?'", schema: {type: string}, by: operator, not: requester, expires: 2d, else: {output: "'none'"}}, wait: {for: 1m}}
`

func TestLoad_ReadsAllKeys(t *testing.T) {
	set, err := declared.Load(write(t, all), config(map[string]string{"KEY": "k1", "TOKEN": "t1"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		declared.Server{
			Name: "files", Command: []string{"npx", "-y", "some-server"}, Allow: []string{"read_file", "write_file"},
			Approval: []string{"write_file"}, Timeout: 5 * time.Second,
		},
		declared.Server{Name: "docs", URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"A": "b"}, Projects: []string{"p1"}},
		declared.Agent{
			Name: "researcher", Description: "Finds things out.", Provider: "openai", Model: "gpt-4o-mini",
			BaseURL: "http://127.0.0.1:1/v1", APIKey: "k1", System: "Costs ${KEY}, $5 and 100 $",
			Tools:  []string{"calculator", "files.*", "writer"},
			Limits: declared.Limits{Timeout: 2 * time.Minute, MaxSteps: 12, Concurrency: 8}, Projects: []string{"p1", "2"},
		},
		declared.Agent{Name: "writer", AGUI: &declared.Endpoint{
			URL: "http://127.0.0.1:1/agui", Headers: map[string]string{"Authorization": "Bearer t1", "X-N": "3"},
			Stop: "http://127.0.0.1:1/stop/{threadId}",
		}},
		declared.Agent{Name: "scorer", Command: []string{"python3", "scorer.py"}, Env: map[string]string{"DEBUG": "true"}},
		plugins.Workflow{Name: "triage", Description: "Sorts.", Projects: []string{"p1"}, Nodes: []plugins.Node{
			{ID: "plan", Agent: "researcher"},
			{
				ID: "score", Agent: "scorer", Needs: []string{"plan"}, Timeout: 30 * time.Second,
				Retry: plugins.Retry{Retries: 3}, ContinueOnError: true,
			},
			{
				ID: "draft", Agent: "scorer", Retry: plugins.Retry{Retries: 2, Initial: time.Second, Max: time.Minute, On: []string{"busy"}},
				Repeat: plugins.Repeat{Until: "draft.round == 2", Max: 3, Fail: true},
			},
			{
				ID: "publish", Tool: "files.write_file", Needs: []string{"plan", "score"},
				When: "score.status == 'success'", Wait: plugins.NodeWait{Until: "'09:00 Europe/Berlin'"}, Approval: true,
				Input: `{"path": ('out.md'` + "\n)" + `, "content": (plan.answer // all of it` + "\n)" + `, "n": (3` + "\n)" +
					`, "deep": {"list": [(query` + "\n)" + `, nil]}}`,
			},
			{ID: "pause", Wait: plugins.NodeWait{For: 36 * time.Hour}},
			{ID: "paid", Wait: plugins.NodeWait{Event: "paid", Within: 48 * time.Hour}},
			{
				ID: "choice", Ask: &plugins.Ask{Schema: []byte(`{"type":"string"}`), Output: "'none'"}, Wait: plugins.NodeWait{For: time.Minute},
				Approver: plugins.Approver{By: "operator", NotRequester: true, Message: "'Which?'", Expires: 48 * time.Hour},
			},
		}},
	}
	var got []any
	for _, p := range set.Plugins() {
		switch p := p.(type) {
		case *made:
			got = append(got, p.agent)
		case *box:
			got = append(got, p.server)
		default:
			got = append(got, p)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	var reg host.Registry
	if err := errors.Join(reg.Add(append(builtin.Plugins(), set.Plugins()...)...), reg.Validate()); err != nil {
		t.Error(err)
	}
}

func TestLoad_ErrorsHavePositions(t *testing.T) {
	flow := func(nodes string) string { return "workflows:\n  w:\n    nodes:\n" + nodes }
	for _, tt := range []struct{ name, file, want string }{
		{"not YAML", "agents:\n  a: b: c\n", "2:1: there is a colon too many"},
		{"two documents", "a: 1\n---\nb: 1\n", "want one YAML document"},
		{"section", "agents: 3\n", "1:9: agents: want lines of name: value"},
		{"list", "agents:\n  - echo\n", "1:1: agents: want lines of name: value"},
		{"nothing", "agents:\n  a:\n", "2:3: agents.a: agui, command or provider is missing"},
		{"both", "agents:\n  a: {provider: openai, command: [x]}\n", "2:3: agents.a: want one of agui, command or provider, got command and provider"},
		{"stop", "agents:\n  a: {provider: openai, parameters: {stop: ['']}}\n", "2:38: agents.a.parameters.stop: want up to 16 texts of 1 to 200 bytes"},
		{"key", "agents:\n  a: {provider: openai, sistem: x}\n", "2:33: agents.a.sistem: there is no such key; did you mean system?"},
		{"merge", "agents:\n  a: {<<: {provider: openai}}\n", "agents.a.<<: there is no such key: write out what it would merge"},
		{"twice", "agents:\n  a: {provider: openai}\n  a: {provider: openai}\n", "3:3: agents.a: is duplicated"},
		{"provider", "agents:\n  a: {provider: opnai}\n", `2:17: agents.a.provider: want openai or anthropic or google or ollama, got "opnai"; did you mean openai?`},
		{"text", "agents:\n  a: {provider: openai, model: 4}\n", "2:32: agents.a.model: want a text; put it in quotes"},
		{"no text", "agents:\n  a: {provider: openai, model: [x]}\n", "agents.a.model: want a text"},
		{"no program", "tools:\n  a: {timeout: 1s}\n", "2:3: tools.a: command is missing"},
		{"a program of a server's name", "mcp:\n  a: {command: [x]}\ntools:\n  a: {command: [x]}\n", `tools.a: a tool or a server with the name "a" already exists`},
		{"a program with a dot", "tools:\n  a.b: {command: [x]}\n", "tools.a.b: a program's name is"},
		{"start of no program", "agents:\n  a: {provider: openai, start_timeout: 1s}\n", "agents.a.start_timeout: is for an agent with a command"},
		{"no list", "agents:\n  a: {command: x}\n", "2:16: agents.a.command: want a list"},
		{"empty command", "agents:\n  a: {command: []}\n", "agents.a.command: name a program"},
		{"no projects", "agents:\n  a: {command: [x], projects: []}\n", "agents.a.projects: name a project, or omit the key to offer it in all"},
		{"nameless project", "agents:\n  a: {command: [x], projects: [p, '']}\n", "agents.a.projects[1]: a project's name is empty"},
		{"projects of a workflow", "workflows:\n  w: {projects: [], nodes: {a: {agent: echo}}}\n", "workflows.w.projects: name a project, or omit the key"},
		{"projects of a server", "mcp:\n  s: {command: [x], projects: []}\n", "mcp.s.projects: name a project, or omit the key"},
		{"duration", "agents:\n  a: {command: [x], limits: {timeout: 30}}\n", `2:39: agents.a.limits.timeout: want a duration such as 1m30s, got "30"`},
		{"negative", "agents:\n  a: {command: [x], limits: {timeout: -1s}}\n", `want a duration such as 1m30s, got "-1s"`},
		{"no provider", "providers: {opnai: {rpm: 3}}\n", `1:13: providers.opnai: "opnai" is no provider and no agent's base_url; did you mean openai?`},
		{"rate", "providers: {openai: {rpm: -3}}\n", `want a whole number, not below 0, got "-3"`},
		{"count", "agents:\n  a: {command: [x], limits: {concurrency: -1}}\n", `want a whole number, not below 0, got "-1"`},
		{"other kind", "agents:\n  a: {command: [x], system: y}\n", "2:29: agents.a.system: is for an agent with a provider"},
		{"steps", "agents:\n  a: {command: [x], limits: {max_steps: 1}}\n", "agents.a.limits.max_steps: is for an agent with a provider"},
		{"name", "agents:\n  'a b': {command: [x]}\n", "2:3: agents.a b: a name is 1 to 64"},
		{"taken", "agents:\n  echo: {command: [x]}\n", `2:3: agents.echo: agent "echo" already exists`},
		{"an address", "agents:\n  events: {command: [x]}\n", "2:3: agents.events: the name is reserved for the address /api/v1/agui/events"},
		{"an address of a workflow", "workflows:\n  events: {nodes: {n: {agent: echo}}}\n", "2:3: workflows.events: the name is reserved for the address /api/v1/agui/events"},
		{"taken twice", "agents:\n  a: {command: [x]}\nworkflows:\n  a: {nodes: {n: {agent: echo}}}\n", `4:3: workflows.a: agent "a" already exists`},
		{"demo", "agents:\n  demo: {command: [x]}\n", `workflow "demo" already exists`},
		{"variable", "agents:\n  a: {command: ['${GONE}']}\n", "2:17: agents.a.command[0]: the environment variable GONE is not set"},
		{"empty variable", "agents:\n  a: {command: ['${EMPTY}']}\n", "the environment variable EMPTY is not set"},
		{"no variable", "agents:\n  a: {command: ['${A:-b}']}\n", "want the name of an environment variable"},
		{"unclosed", "agents:\n  a: {command: ['${A']}\n", "want the name of an environment variable"},
		{"url", "agents:\n  a: {agui: {url: 'ftp://${SECRET}@x'}}\n", "2:19: agents.a.agui.url: want a URL such as"},
		{"stop", "agents:\n  a: {agui: {url: 'http://x', stop: 'http://x/stop'}}\n", "agents.a.agui.stop: want {threadId} in the URL"},
		{"no url", "agents:\n  a: {agui: {}}\n", "agents.a.agui: url is missing"},
		{"maker", "agents:\n  a: {provider: openai, api_key: '${SECRET}'}\n", "2:3: agents.a: is not valid with the values of the file's variables, ${SECRET}"},
		{"part of a value", "agents:\n  a: {provider: openai, tools: ['f.${SECRET}']}\nmcp: {f: {command: [x], allow: [read]}}\n", `mcp.f.allow does not offer "${SECRET}"`},
		{"hint", "agents:\n  a: {provider: openai, tools: [f.wrong-kay]}\nmcp: {f: {command: [x], allow: ['${SECRET}']}}\n", `mcp.f.allow does not offer "wrong-kay"`},
		{"number", "providers: {openai: {rpm: '${SECRET}'}}\n", `providers.openai.rpm: want a whole number, not below 0, got "${SECRET}"`},
		{"number's variable", "providers: {openai: {rpm: '${GONE}'}}\n", `providers.openai.rpm: the environment variable GONE is not set`},
		{"enum", "agents:\n  a: {provider: '${SECRET}'}\n", `got "${SECRET}"`},
		{"key", "agents:\n  '${SECRET}': {provider: openai}\n", "2:3: agents.${SECRET}: a key cannot contain ${…}"},
		{"expression", flow("      n: {agent: echo, when: '${PATH} > 1'}\n"), "when: invalid operation: > (mismatched types string and int) (1:9)"},
		{"expression's variable", flow("      n: {agent: echo, input: \"'${BATON_TEST_GONE}'\"}\n"), "4:31: workflows.w.nodes.n.input: the environment variable BATON_TEST_GONE is not set"},
		{"tool", "agents:\n  a: {provider: openai, tools: [clock, calculatr]}\n", `2:40: agents.a.tools[1]: there is no tool or agent "calculatr"; did you mean calculator?`},
		{"itself", "agents:\n  a: {provider: openai, tools: [a]}\n", "an agent cannot call itself"},
		{"pattern", "agents:\n  a: {provider: openai, tools: ['files.*']}\n", `there is no tool or agent that matches "files.*"`},
		{"bad pattern", "agents:\n  a: {provider: openai, tools: ['[']}\n", "want a name or a pattern"},
		{"not allowed", "agents:\n  a: {provider: openai, tools: [f.reed]}\nmcp: {f: {command: [x], allow: [read]}}\n", `mcp.f.allow does not offer "reed"; did you mean read?`},
		{"server", "mcp:\n  a.b: {command: [x]}\n", "2:3: mcp.a.b: a server's name is 1 to 64 letters, digits, dashes"},
		{"server is tool", "mcp:\n  clock: {command: [x]}\n", `"clock" already exists`},
		{"both ways", "mcp:\n  f: {command: [x], url: 'http://x'}\n", "mcp.f: want one of command or url"},
		{"env of url", "mcp:\n  f: {url: 'http://x', env: {A: b}}\n", "mcp.f.env: is for a server with a command"},
		{"approval", "mcp:\n  f: {command: [x], allow: [read], approval: [write]}\n", `2:47: mcp.f.approval[0]: "write" is not in allow`},
		{"none", "mcp:\n  f: {command: [x], allow: []}\n", "mcp.f.allow: name a tool, or omit the key to offer all"},
		{"no nodes", "workflows:\n  w: {nodes: {}}\n", "2:3: workflows.w: has no nodes"},
		{"node", flow("      n: {}\n"), "4:7: workflows.w.nodes.n: agent, ask, tool or wait is missing"},
		{"node's agent", flow("      n: {agent: ecko}\n"), `4:18: workflows.w.nodes.n.agent: there is no agent "ecko"; did you mean echo?`},
		{"workflow in workflow", flow("      n: {agent: demo}\n"), `there is no agent "demo"`},
		{"node's tool", flow("      n: {tool: files.x}\n"), `there is no tool "files.x"`},
		{"need", flow("      plan: {agent: echo}\n      n: {agent: echo, needs: [plam]}\n"), `5:32: workflows.w.nodes.n.needs[0]: there is no node "plam"; did you mean plan?`},
		{"need twice", flow("      p: {agent: echo}\n      n: {agent: echo, needs: [p, p]}\n"), `needs[1]: "p" is duplicated`},
		{"cycle", flow("      o: {agent: echo, needs: [n]}\n      n: {agent: echo, needs: [m]}\n      m: {agent: echo, needs: [n]}\n"), "5:24: workflows.w.nodes.n.needs: a cycle: n needs m needs n"},
		{"case", "agents:\n  a: {provider: OpenAI}\n", `2:17: agents.a.provider: want openai or anthropic or google or ollama, got "OpenAI"; did you mean openai?`},
		{"camels", "agents:\n  a: {provider: openai, maxSteps: 3}\n", "agents.a.maxSteps: there is no such key; there are description, provider"},
		{"args", "mcp:\n  f: {command: [x], args: [y]}\n", "mcp.f.args: there is no such key; there are command, env, dir, url"},
		{"command line", "agents:\n  a: {command: python3 scorer.py}\n", "agents.a.command: want a list: [python3, scorer.py]"},
		{"switch", flow("      n: {agent: echo, approval: true}\n"), `approval: want required, or a mapping such as {by: operator}, got "true"`},
		{"server's name", "agents:\n  a: {provider: openai, tools: [file.read]}\nmcp: {files: {command: [x]}}\n", `there is no tool or agent "file.read"; did you mean files?`},
		{"not in needs", flow("      a: {agent: echo}\n      n: {agent: echo, when: a.status == 'success'}\n"), "when: unknown name a (1:1): name it in needs"},
		{"one equals sign", flow("      n: {agent: echo, when: query = 'x'}\n"), "compare with =="},
		{"argument", flow("      n: {tool: calculator, input: {expresion: query}}\n"), "input.expresion: calculator has no such argument; did you mean expression?"},
		{"no argument", flow("      n: {tool: calculator, input: {}}\n"), "input: the argument expression of calculator is missing"},
		{"id", flow("      a-b: {agent: echo}\n"), "workflows.w"},
		{"approval word", flow("      n: {agent: echo, approval: maybe}\n"), `approval: want required, or a mapping such as {by: operator}, got "maybe"`},
		{"approver's role", flow("      n: {agent: echo, approval: {by: boss}}\n"), `approval.by: want`},
		{"approver who asks only himself", flow("      n: {agent: echo, approval: {not: requester}}\n"), `approval.not: a user approves only in their own runs`},
		{"approval's question", flow("      n: {agent: echo, approval: {by: admin, not: requester, message: \"'Run ' + nobody\"}}\n"), `approval.message: unknown name nobody`},
		{"approver of no calls", "mcp:\n  f: {command: [x], approver: {by: operator}}\n", `mcp.f.approver: needs approval`},
		{"approver's question", "mcp:\n  f: {command: [x], approval: [a], approver: {message: argz.to}}\n", `mcp.f.approver.message: unknown name argz`},
		{"map without a list", flow("      n: {agent: echo, map: {as: topic}}\n"), `n.map: over is missing`},
		{"map over a text", flow("      n: {agent: echo, map: {over: query}}\n"), `n.map.over: want a list, got string`},
		{"map's key", flow("      n: {agent: echo, map: {over: state.topics, as: topic, key: item.id}}\n"), `n.map.key: unknown name item`},
		{"map's item", flow("      n: {agent: echo, map: {over: '[1]', as: len}}\n"), `the item cannot be called len`},
		{"item outside of a map", flow("      n: {agent: echo, map: {over: state.topics}, when: item == 1}\n"), `n.when: unknown name item`},
		{"too many items at once", flow("      n: {agent: echo, map: {over: state.topics, max: 101}}\n"), `n.map.max: want 1 to 100`},
		{"map of runs", flow("      n: {agent: echo, map: {over: state.topics, runs: true}}\n"), `n.map.runs: there is no such key`},
		{"item's member", flow("      m: {agent: echo, map: {over: state.topics}}\n      n: {agent: echo, needs: [m], input: 'm.errors[0].text'}\n"), `n.input: unknown field text`},
		{"retry", flow("      n: {agent: echo, retry: often}\n"), `retry: want a whole number`},
		{"a word as id", flow("      count: {agent: echo}\n"), "4:7: workflows.w.nodes.count: count is a word of expressions: choose another id"},
		{"no wait", flow("      n: {wait: {}}\n"), "workflows.w.nodes.n.wait: event, for or until is missing"},
		{"two waits", flow("      n: {wait: {for: 1d, until: query}}\n"), "workflows.w.nodes.n.wait: want one of event, for or until, got for and until"},
		{"wait's time", flow("      n: {agent: echo, wait: {until: quary}}\n"), "4:38: workflows.w.nodes.n.wait.until: unknown name quary (1:1)"},
		{"wait's duration", flow("      n: {wait: {for: 1d-2h}}\n"), `wait.for: want a duration such as 1m30s, got "1d-2h"`},
		{"retry's number", flow("      n: {agent: echo, retry: {on: [busy]}}\n"), "n.retry: max is missing"},
		{"error of no such way", flow("      n: {agent: echo, on_error: retry}\n"), `on_error: want fail or continue, got "retry"`},
		{"no end of rounds", flow("      n: {agent: echo, repeat: {max: 3}}\n"), "n.repeat: until is missing"},
		{"many rounds", flow("      n: {agent: echo, repeat: {until: n.round > 2, max: 101}}\n"), "n.repeat.max: want at most 100 rounds"},
		{"rounds of another node", flow("      m: {agent: echo}\n      n: {agent: echo, needs: [m], repeat: {until: m.round > 2}}\n"), "n.repeat.until: unknown field round"},
		{"a round before the first", flow("      n: {agent: echo, when: n.round > 2, repeat: {until: n.round > 2}}\n"), "n.when: unknown name n"},
		{"error of a node that fails the run", flow("      m: {agent: echo}\n      n: {agent: echo, needs: [m], when: m.error.code == ''}\n"), "n.when: unknown field error"},
		{"question and agent", flow("      n: {agent: echo, ask: {message: query}}\n"), "workflows.w.nodes.n: want one of agent, ask, tool or wait, got agent and ask"},
		{"no question", flow("      n: {ask: {by: user}}\n"), "n.ask: message is missing"},
		{"question's message", flow("      n: {ask: {message: quary}}\n"), "n.ask.message: unknown name quary"},
		{"question's schema", flow("      n: {ask: {message: query, schema: {type: nothing}}}\n"), "n.ask.schema: no JSON Schema that Baton can use"},
		{"two ends of a question", flow("      n: {ask: {message: query, else: {skip: true, output: query}}}\n"), "n.ask.else: want one of fail, output or skip, got output and skip"},
		{"output of a question", flow("      n: {ask: {message: query, else: {output: quary}}}\n"), "n.ask.else.output: unknown name quary"},
		{"who asks only himself", flow("      n: {ask: {message: query, not: requester}}\n"), "n.ask.not: a user approves only in their own runs"},
		{"approval of a question", flow("      n: {ask: {message: query}, approval: required}\n"), "n.approval: is for a node with an agent or a tool"},
		{"member of an answer", flow("      m: {ask: {message: query, schema: {type: object, properties: {a: {type: string}}}}}\n      n: {agent: echo, needs: [m], input: m.output.b + m.by}\n"), "n.input: unknown field b"},
		{"input of a wait", flow("      n: {wait: {for: 2h}, input: query}\n"), "4:35: workflows.w.nodes.n.input: is for a node with an agent or a tool"},
		{"when", flow("      n: {agent: echo, when: 'quary == 1'}\n"), "4:30: workflows.w.nodes.n.when: unknown name quary (1:1)"},
		{"when's type", flow("      n: {agent: echo, when: 'query'}\n"), "expected bool, but got string"},
		{"not needed", flow("      a: {agent: echo}\n      n: {agent: echo, input: a.answer}\n"), "5:31: workflows.w.nodes.n.input: unknown name a (1:1)"},
		{"member", flow("      n: {tool: clock, input: {x: 'query', y: [1 +]}}\n"), "4:48: workflows.w.nodes.n.input.y[0]: unexpected token EOF"},
		{"too much", "agents:\n  a: &a {command: [x]}\nmcp: " + strings.Repeat("[", 1) + strings.Repeat("*a,", 1) + "]\n", "want lines of name: value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := write(t, tt.file)
			_, err := declared.Load(name, config(map[string]string{"SECRET": "wrong-key", "EMPTY": ""}), nil)
			if err == nil {
				t.Fatalf("it was accepted, want %q", tt.want)
			}
			found := false
			all, _ := errors.AsType[declared.Errors](err)
			for _, e := range all {
				found = found || strings.Contains(strings.TrimPrefix(e.Error(), name+":"), tt.want) && strings.HasPrefix(e.Error(), name+":")
			}
			if !found || strings.Contains(err.Error(), "wrong-key") {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestLoad_ReportsAllErrorsInOrder(t *testing.T) {
	file := "workflows: {w: {nodes: {n: {agent: nobody}}}}\nagents:\n  a: {colour: red}\nmcp:\n  f: {}\n"
	_, err := declared.Load(write(t, file), config(nil), nil)
	var lines []int
	all, _ := errors.AsType[declared.Errors](err)
	for _, e := range all {
		lines = append(lines, e.Line)
	}
	if !slices.Equal(lines, []int{1, 3, 3, 5}) {
		t.Errorf("lines %v in:\n%v", lines, err)
	}
}

func TestLoad_ReportsErrorOnce(t *testing.T) {
	for _, file := range []string{
		"agents:\n  a: {command: python3 scorer.py}\n", "agents:\n  a: {agui: 'http://127.0.0.1:1/agui'}\n", "agents:\n  a:\n    provider:openai\n",
		"mcp:\n  f: npx -y some-server\n", "workflows:\n  w:\n    nodes:\n      - {agent: echo}\n", "workflows:\n  w: []\n", "just words\n",
		"agents:\n  a: {provider: OpenAI, model: x}\n", "mcp:\n  f: {command: npx, env: {A: b}}\n",
	} {
		_, err := declared.Load(write(t, file), config(nil), nil)
		if all, _ := errors.AsType[declared.Errors](err); len(all) != 1 || all[0].Line == 0 {
			t.Errorf("%q: got %v", file, err)
		}
	}
}

func TestLoad_LimitsAliases(t *testing.T) {
	var b strings.Builder
	b.WriteString("x0: &x0 {a: q}\n")
	for i := range 40 {
		fmt.Fprintf(&b, "x%d: &x%d {a: *x%d, b: *x%d}\n", i+1, i+1, i, i)
	}
	b.WriteString("workflows: {w: {nodes: {n: {tool: clock, input: *x40}}}}\n")
	if _, err := declared.Load(write(t, b.String()), config(nil), nil); err == nil || !strings.Contains(err.Error(), "more than 20000 values") {
		t.Errorf("got %.200v", err)
	}
	if _, err := declared.Load(write(t, "workflows: {w: {nodes: {n: {tool: clock, input: &a [*a]}}}}\n"), config(nil), nil); err == nil {
		t.Error("a recursive alias was accepted")
	}
	good := "agents: {a: &a {command: [x]}, b: *a}\n"
	if _, err := declared.Load(write(t, good), config(nil), nil); err != nil {
		t.Error(err)
	}
}

func TestLoad_MissingFileAndMakers(t *testing.T) {
	_, err := declared.Load("gone.yaml", config(nil), nil)
	if err == nil || err.Error() != "gone.yaml: no such file or directory" {
		t.Errorf("got %v", err)
	}
	_, err = declared.Load(write(t, "agents: {a: {command: [x]}}\nmcp: {f: {command: [x]}}\n"), declared.Config{}, nil)
	for _, want := range []string{"1:10: agents.a: command: this program does not support such agents", "2:7: mcp.f: this program does not support MCP servers"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestLoad_ReusesUnchangedPlugins(t *testing.T) {
	env := map[string]string{"KEY": "k1", "TOKEN": "t1"}
	first, err := declared.Load(write(t, all), config(env), nil)
	if err != nil {
		t.Fatal(err)
	}
	env["TOKEN"] = "t2"
	changed := strings.Replace(all, "docs:", "news:", 1)
	second, err := declared.Load(write(t, "# moved down\n"+changed), config(env), first)
	if err != nil {
		t.Fatal(err)
	}
	want := declared.Changes{Added: []string{"mcp.news"}, Changed: []string{"agents.writer"}, Removed: []string{"mcp.docs"}}
	if diff := cmp.Diff(want, second.Since(first)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	same := 0
	for _, p := range second.Plugins() {
		for _, q := range first.Plugins() {
			switch p.(type) {
			case *made, *box:
				if p == q {
					same++
				}
			}
		}
	}
	if same != 3 { // files, researcher, scorer
		t.Errorf("%d plugins are the same, want 3", same)
	}
	var none *declared.Set
	if got := none.Since(second).Removed; len(got) != 6 || len(none.Plugins()) != 0 {
		t.Errorf("no set: removed %v", got)
	}
}

// FuzzLoad checks that Load never panics, and that a registry accepts all plugins that Load returns.
func FuzzLoad(f *testing.F) {
	f.Add(all)
	f.Add("agents: {a: &a {command: [x]}, b: *a}\nworkflows: {w: {nodes: {n: {agent: a, input: [1, {x: query}]}}}}\n")
	f.Add("mcp: {f: {url: 'http://x', allow: ['r*'], approval: [read]}}\nworkflows: {w: {nodes: {n: {tool: f.read, when: 'true'}}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := declared.Load(write(t, text), config(map[string]string{"KEY": "k1", "TOKEN": "t1"}), nil)
		if err != nil {
			return
		}
		var reg host.Registry
		if err := errors.Join(reg.Add(append(builtin.Plugins(), set.Plugins()...)...), reg.Validate()); err != nil {
			t.Errorf("%q was taken: %v", text, err)
		}
	})
}

// TestOrigins_FollowTheFile moves an unchanged declaration to another line.
func TestOrigins_FollowTheFile(t *testing.T) {
	const text = `mcp:
  files:
    url: https://me:pass-word@tools.example.com/sk-key/mcp?token=t
agents:
  researcher: {provider: openai, model: m, tools: [clock, files.*]}
  far:
    agui: {url: "https://far.example.com/sk-key/agui"}
  scorer: {command: [python3, scorer.py]}
workflows:
  flow: {nodes: {n: {agent: researcher}}}
`
	name := write(t, text)
	first, err := declared.Load(name, config(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("# more\n\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := declared.Load(name, config(nil), first)
	if err != nil {
		t.Fatal(err)
	}
	for down, set := range map[int]*declared.Set{0: first, 2: second} {
		want := []host.Origin{
			{Kind: host.OriginMCP, File: name, Line: down + 2, Server: "files", URL: "https://tools.example.com"},
			{Kind: host.OriginYAML, File: name, Line: down + 5, Provider: "openai", Model: "m", Tools: []string{"clock", "files.*"}},
			{Kind: host.OriginRemote, File: name, Line: down + 6, URL: "https://far.example.com"},
			{Kind: host.OriginProcess, File: name, Line: down + 8},
			{Kind: host.OriginYAML, File: name, Line: down + 10},
		}
		var got []host.Origin
		for i, p := range set.From() {
			from := p.(host.From)
			if i < 4 && from.Plugin != first.Plugins()[i] {
				t.Errorf("%s is another plugin", from.Info().Name)
			}
			got = append(got, from.Origin)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if none := (*declared.Set)(nil); len(none.From()) != 0 {
		t.Error("a nil set has origins")
	}
}

func TestLoad_RefusesContextWithDatabase(t *testing.T) {
	top := t.TempDir()
	t.Chdir(top)
	for _, dir := range []string{"data/notes", "notes"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("data", "linked"); err != nil {
		t.Fatal(err)
	}
	cfg := config(nil)
	for _, cfg.Database = range []string{"data/baton.db", filepath.Join(top, "linked", "new.db"), "linked/baton.db"} {
		for dir, allowed := range map[string]bool{".": false, "data": false, "linked": false, "notes/..": false, top: false, "notes": true, "data/notes": true} {
			_, err := declared.Load(write(t, "agents: {a: {provider: ollama, model: m, context: ["+dir+"]}}\n"), cfg, nil)
			if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "agents.a.context[0]: contains the database") {
				t.Errorf("%s with the database in %s: %v", dir, cfg.Database, err)
			}
		}
	}
}

// Variables are resolved after parsing, in every value. Definitions have expressions as they are written.
func TestLoad_ResolvesVariables(t *testing.T) {
	t.Setenv("BATON_TEST_QUOTE", `x' or 'a\`)
	env := map[string]string{
		"PROVIDER": "ollama", "KEY": "a: [b, 'c'", "N": "7", "T": "90s", "YES": "true", "X": "0.5", "ABOUT": "has \"quotes\"", "URL": "http://127.0.0.1:1/", "ESCAPED": "$${N}",
	}
	set, err := declared.Load(write(t, `
agents:
  a:
    provider: ${PROVIDER}
    model: m
    api_key: "${KEY}"
    parameters: {temperature: "${X}", max_output_tokens: "${N}"}
    limits: {timeout: "${T}"}
    system: "${ESCAPED}"
    output:
      schema:
        type: object
        properties:
          p:
            description: "${ABOUT}"
            title: "${N}"
            maximum: ${N}
    guard: {tool: {name: g, expr: "tool != '${BATON_TEST_QUOTE}'"}}
mcp:
  s: {url: "${URL}mcp", headers: {A: "${N}"}, required: "${YES}", timeout: "${T}"}
workflows:
  w: {description: "${N}", nodes: {n: {agent: echo, when: "query != '${BATON_TEST_QUOTE}'", input: {"a": "${BATON_TEST_QUOTE}"}}}}
`), config(env), nil)
	if err != nil {
		t.Fatal(err)
	}
	half := 0.5
	for _, p := range set.Plugins() {
		switch p := p.(type) {
		case *box:
			want := declared.Server{Name: "s", URL: "http://127.0.0.1:1/mcp", Headers: map[string]string{"A": "7"}, Required: true, Timeout: 90 * time.Second}
			if diff := cmp.Diff(want, p.server); diff != "" {
				t.Error(diff)
			}
		case *made:
			a := p.agent
			if a.Provider != "ollama" || a.APIKey != env["KEY"] || *a.Parameters.Temperature != half || a.Parameters.MaxOutputTokens != 7 || a.Limits.Timeout != 90*time.Second || a.System != "$${N}" {
				t.Errorf("got %+v", a)
			}
			if want := `{"properties":{"p":{"description":"has \"quotes\"","maximum":7,"title":"7"}},"type":"object"}`; string(a.Output.Schema) != want {
				t.Errorf("got %s, want %s", a.Output.Schema, want)
			}
		case plugins.Workflow:
			n := p.Nodes[0]
			if p.Description != "7" || n.When != "query != '${BATON_TEST_QUOTE}'" || n.Input != `{"a": (${BATON_TEST_QUOTE}`+"\n)}" {
				t.Errorf("got %+v", p)
			}
		}
	}
}
