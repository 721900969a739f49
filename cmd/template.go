package cmd

import (
	"strings"

	"github.com/batonrun/baton/plugins/llm/provider"
)

// template returns the file that init writes: with an agent for the model provider in the environment, or with an example agent
// in comments if there is none.
func template(getenv func(string) string) string {
	model, err := provider.FromEnv(getenv)
	found := err == nil
	if !found {
		getenv = func(name string) string { return map[string]string{"OPENAI_API_KEY": "…"}[name] }
		model, _ = provider.FromEnv(getenv) // cannot fail
	}
	agent := "    provider: " + model.Provider + "\n    model: " + model.Model + "\n"
	prefix := strings.ToUpper(model.Provider)
	if getenv(prefix+"_BASE_URL") != "" {
		agent += "    base_url: ${" + prefix + "_BASE_URL}\n"
	}
	switch {
	case getenv(prefix+"_API_KEY") != "":
		agent += "    api_key: ${" + prefix + "_API_KEY}\n"
	case model.APIKey != "":
		agent += "    api_key: ${GEMINI_API_KEY}\n"
	}
	agents := "agents:\n  researcher:\n    description: Finds things out.\n" + agent + templateAgent
	workflow := strings.ReplaceAll(templateWorkflow, "AGENT", "researcher")
	if !found {
		agents = "# The environment has no key of a model provider. An agent with one (provider: ollama needs none):\n" + commented(agents)
		workflow = strings.ReplaceAll(templateWorkflow, "AGENT", "echo")
	}
	return templateHead + agents + templateTools + workflow
}

func commented(s string) string {
	return "# " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n# ") + "\n"
}

const templateHead = `# yaml-language-server: $schema=./` + schemaFile + `
#
# The settings of this Baton, and its agents, tools and workflows; docs/agents.md explains each key. ${NAME} in a value is
# replaced by that environment variable. "baton check" reports errors. SIGHUP reloads agents, mcp, tools, providers and workflows of a
# running server, and starts its programs anew.

# Settings; "baton config" prints all of them.
# listen: 127.0.0.1:8080
# database: sqlite:baton.db

`

const templateAgent = `    system: You answer briefly, and compute with the calculator.
    tools: [calculator, clock]
    limits: {timeout: 2m, max_steps: 12}
    # fallback: [{provider: ollama, model: qwen3}]       # used when the model has failed
    # history: {tokens: 32000, over: summarise}          # for earlier turns that do not fit: drop or summarise
    # output: structured                                 # adds key points and suggested actions to the answer
    # context: [notes]                                   # directories of text files that a run may refer to
`

const templateTools = `
# Remote agents, and programs as agents:
#   writer: {agui: {url: "http://127.0.0.1:9000/agui", headers: {Authorization: "Bearer ${WRITER_TOKEN}"}}}
#   scorer: {command: [python3, scorer.py], dir: agents}

# Tools of MCP servers. An agent lists them as files.read_file, or all as files.*
# mcp:
#   files: {command: [npx, -y, some-server], allow: [read_file, write_file], approval: [write_file]}
#   docs: {url: "http://127.0.0.1:9001/mcp", required: true}

# Tools of programs that speak Baton's protocol (docs/process.md). An agent lists them as sums.add, or all as sums.*
# tools:
#   sums: {command: [python3, sums.py]}
`

const templateWorkflow = `
# What model calls cost, and may use.
# prices: {currency: USD, models: {some-model: {input: 0.15, output: 0.60}}}  # per million tokens
# budgets:
#   daily: {scope: user, per: day, unit: tokens, limit: 2000000}  # per month, in USD, for an agent, a project or each run; over: stop or ask

# Graphs of agents and tools. Inputs and conditions are expressions over the nodes listed in needs.
workflows:
  answer:
    description: Answers, and asks for approval before it reads the clock.
    nodes:
      draft: {agent: AGENT}
      stamp:
        tool: clock
        needs: [draft]
        when: draft.status == 'success'
        approval: required
`
