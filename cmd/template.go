package cmd

import (
	"strings"

	"github.com/batonrun/baton/plugins/llm/provider"
)

// template is the file that init writes: with an agent of the model that the environment names, and with the lines of one
// as a comment when it names none.
func template(getenv func(string) string) string {
	model, err := provider.FromEnv(getenv)
	there := err == nil
	if !there {
		getenv = func(name string) string { return map[string]string{"OPENAI_API_KEY": "…"}[name] }
		model, _ = provider.FromEnv(getenv) // names one
	}
	agent := "    provider: " + model.Provider + "\n    model: " + model.Model + "\n"
	of := strings.ToUpper(model.Provider)
	if getenv(of+"_BASE_URL") != "" {
		agent += "    base_url: ${" + of + "_BASE_URL}\n"
	}
	switch {
	case getenv(of+"_API_KEY") != "":
		agent += "    api_key: ${" + of + "_API_KEY}\n"
	case model.APIKey != "":
		agent += "    api_key: ${GEMINI_API_KEY}\n"
	}
	agents := "agents:\n  researcher:\n    description: Finds things out.\n" + agent + templateAgent
	workflow := strings.ReplaceAll(templateWorkflow, "AGENT", "researcher")
	if !there {
		agents = "# No key of a provider is set. With one, or with provider: ollama and no key, this is an agent:\n" + commented(agents)
		workflow = strings.ReplaceAll(templateWorkflow, "AGENT", "echo")
	}
	return templateHead + agents + templateTools + workflow
}

func commented(s string) string {
	return "# " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n# ") + "\n"
}

const templateHead = `# yaml-language-server: $schema=./` + schemaFile + `
#
# What this Baton offers, and its settings; docs/agents.md explains each key. A text takes a value of the environment as
# ${NAME}. "baton check" says what is wrong, and a running server reads agents, mcp and workflows again at a SIGHUP.

# Settings: "baton config" prints all that there are.
# listen: 127.0.0.1:8080
# database: sqlite:baton.db

`

const templateAgent = `    system: You answer briefly, and compute with the calculator.
    tools: [calculator, clock]
    limits: {timeout: 2m, max_steps: 12}
    # fallback: {provider: ollama, model: qwen3}         # is asked when the model has failed
    # prices: {some-model: {input: 0.15, output: 0.60}}  # of a million tokens, for limits.max_cost
    # history: {tokens: 32000, over: summarise}          # earlier turns that do not fit: drop or summarise
    # output: structured                                 # key points and suggested actions beside the answer
    # context: [notes]                                   # directories of text files that a run may name
`

const templateTools = `
# Agents in other places, and programs:
#   writer: {agui: {url: "http://127.0.0.1:9000/agui", headers: {Authorization: "Bearer ${WRITER_TOKEN}"}}}
#   scorer: {command: [python3, scorer.py], dir: agents}

# Tools of MCP servers: an agent names them as files.read_file, or all as files.*
# mcp:
#   files: {command: [npx, -y, some-server], allow: [read_file, write_file], approval: [write_file]}
#   docs: {url: "http://127.0.0.1:9001/mcp", required: true}
`

const templateWorkflow = `
# Graphs of agents and tools. Inputs and conditions are expressions over the nodes that are needed.
workflows:
  answer:
    description: Answers, and asks a person before it looks at the clock.
    nodes:
      draft: {agent: AGENT}
      stamp:
        tool: clock
        needs: [draft]
        when: draft.status == 'success'
        approval: required
`
