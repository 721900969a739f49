package cmd

import "strings"

// template is the file that init writes: with an agent of the first provider that the environment has, and with the
// lines of one as a comment when it has none.
func template(getenv func(string) string) string {
	agent := ""
	for _, p := range []struct{ variable, agent string }{
		{"OPENAI_API_KEY", "    provider: openai\n    model: gpt-4o-mini\n    api_key: ${OPENAI_API_KEY}\n"},
		{"ANTHROPIC_API_KEY", "    provider: anthropic\n    model: claude-3-5-haiku-latest\n    api_key: ${ANTHROPIC_API_KEY}\n"},
		{"GOOGLE_API_KEY", "    provider: google\n    model: gemini-2.0-flash\n    api_key: ${GOOGLE_API_KEY}\n"},
		{"OLLAMA_HOST", "    provider: ollama\n    model: qwen3\n"},
	} {
		if getenv(p.variable) != "" {
			agent = p.agent
			break
		}
	}
	there := agent != ""
	if !there {
		agent = "    provider: openai\n    model: gpt-4o-mini\n    api_key: ${OPENAI_API_KEY}\n"
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
`

const templateTools = `
# Agents in other places, and programs:
#   writer: {agui: {url: "http://127.0.0.1:9000/agui", headers: {Authorization: "Bearer ${WRITER_TOKEN}"}}}
#   scorer: {command: [python3, scorer.py]}

# Tools of MCP servers: an agent names them as files.read_file, or all as files.*
# mcp:
#   files: {command: [npx, -y, some-server], allow: [read_file, write_file], approval: [write_file]}
#   docs: {url: "http://127.0.0.1:9001/mcp"}
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
