package declared

import "time"

// file is what stands in a file, beside the settings of the server. A doc tag becomes the description in the JSON Schema.
type file struct {
	Agents    map[string]*Agent    `yaml:"agents" doc:"Agents by name: a model of a provider, an AG-UI endpoint, or a program."`
	MCP       map[string]*Server   `yaml:"mcp" doc:"MCP servers by name, whose tools are offered as name.tool."`
	Workflows map[string]*Workflow `yaml:"workflows" doc:"Graphs of agents and tools by name."`
}

// Agent is a declared agent. It has a Provider, an AGUI or a Command.
type Agent struct {
	Name        string `yaml:"-"`
	Description string `yaml:"description" doc:"What it is good for; other agents that may call it read this."`

	Provider string   `yaml:"provider" enum:"openai,anthropic,google,ollama" doc:"Who has the model."`
	Model    string   `yaml:"model" doc:"The model's name at the provider."`
	BaseURL  string   `yaml:"base_url" doc:"Where the provider's API is, for servers that speak it too; by default what its environment variable says, or the provider's own."`
	APIKey   string   `yaml:"api_key" doc:"The provider's key, by default that of its environment variable."`
	System   string   `yaml:"system" doc:"What the model is told before all else."`
	Tools    []string `yaml:"tools" doc:"Tools and agents that it may call: names, or patterns such as files.*"`

	Fallback *Model            `yaml:"fallback" doc:"The model that is asked when this one has failed, its retries included."`
	Prices   map[string]*Price `yaml:"prices" doc:"What a million tokens cost, by the name of the model; for limits.max_cost."`
	History  *History          `yaml:"history" doc:"How much of the conversation the model is shown."`
	Output   string            `yaml:"output" enum:"text,structured" doc:"structured asks the model for key points and suggested actions beside its answer."`
	Context  []string          `yaml:"context" doc:"Directories whose text files are context items, by their paths in them."`

	AGUI *Endpoint `yaml:"agui" doc:"An agent behind an AG-UI endpoint."`

	Command []string          `yaml:"command" doc:"A program that speaks Baton's protocol on its standard input and output, with its arguments."`
	Env     map[string]string `yaml:"env" doc:"The program's environment beside PATH, HOME and LANG."`
	Dir     string            `yaml:"dir" doc:"The directory that the program runs in, default the server's."`

	Limits   Limits   `yaml:"limits" doc:"What one run of it may take."`
	Projects []string `yaml:"projects" doc:"Those in which it is offered, default all. In another there is no such agent."`
}

// Model is a model of a provider.
type Model struct {
	Provider string `yaml:"provider" enum:"openai,anthropic,google,ollama" doc:"Who has the model."`
	Model    string `yaml:"model" doc:"The model's name at the provider."`
	BaseURL  string `yaml:"base_url" doc:"Where the provider's API is."`
	APIKey   string `yaml:"api_key" doc:"The provider's key."`
}

// Price is what a million tokens cost.
type Price struct {
	Input       float64 `yaml:"input" doc:"Of what the model reads."`
	CachedInput float64 `yaml:"cached_input" doc:"Of that what the provider has cached, default input."`
	Output      float64 `yaml:"output" doc:"Of what it writes."`
}

// History bounds what a model is shown of its conversation.
type History struct {
	Tokens int    `yaml:"tokens" doc:"Of earlier turns, default 32000; the latest turn is always shown."`
	Over   string `yaml:"over" enum:"drop,summarise" doc:"What becomes of turns that do not fit: they are dropped, which is the default, or the model sums them up."`
}

// Endpoint is where a remote agent is.
type Endpoint struct {
	URL     string            `yaml:"url" doc:"Takes POSTs of RunAgentInput."`
	Headers map[string]string `yaml:"headers" doc:"Sent with each request."`
}

// Limits bounds an agent.
type Limits struct {
	Timeout     time.Duration `yaml:"timeout" doc:"One execution, default timeouts.step."`
	MaxSteps    int           `yaml:"max_steps" doc:"How often the model is asked in one execution."`
	MaxTokens   int           `yaml:"max_tokens" doc:"Tokens that the model may take in one execution, with the agents that it calls."`
	MaxCost     float64       `yaml:"max_cost" doc:"What all of that may cost by prices, in their currency."`
	Concurrency int           `yaml:"concurrency" doc:"Runs of it at once, default no limit of its own."`
}

// Server is a declared server of tools. It has a Command or a URL.
type Server struct {
	Name     string            `yaml:"-"`
	Command  []string          `yaml:"command" doc:"A program that speaks MCP on its standard input and output, with its arguments."`
	Env      map[string]string `yaml:"env" doc:"The program's environment beside PATH, HOME and LANG."`
	Dir      string            `yaml:"dir" doc:"The directory that the program runs in, default the server's."`
	URL      string            `yaml:"url" doc:"An endpoint of MCP's streamable HTTP."`
	Headers  map[string]string `yaml:"headers" doc:"Sent with each request."`
	Allow    []string          `yaml:"allow" doc:"The server's tools that are offered, by names or patterns such as read_*, default all."`
	Approval []string          `yaml:"approval" doc:"Those before each call of which a person is asked."`
	Timeout  time.Duration     `yaml:"timeout" doc:"One call, default timeouts.tool."`
	Projects []string          `yaml:"projects" doc:"Those in which its tools are offered, default all."`
	Required bool              `yaml:"required" doc:"Whether this Baton is not ready while the server is away."`
}

// Workflow is a declared workflow.
type Workflow struct {
	Description string           `yaml:"description" doc:"What it is good for."`
	Projects    []string         `yaml:"projects" doc:"Those in which it is offered, default all in which its agents and tools are."`
	Nodes       map[string]*Node `yaml:"nodes" doc:"Its nodes by id. Those whose needs are met run in parallel."`
}

// Node is a node of a declared workflow. It has an Agent or a Tool.
type Node struct {
	Agent    string        `yaml:"agent" doc:"The agent to run."`
	Tool     string        `yaml:"tool" doc:"The tool to call."`
	Needs    []string      `yaml:"needs" doc:"Nodes that must have ended before."`
	When     string        `yaml:"when" doc:"An expression; the node is skipped unless it is true."`
	Input    *Input        `yaml:"input" doc:"An expression, or members that are expressions: an agent's query, a tool's arguments."`
	Retry    int           `yaml:"retry" doc:"How often it is executed again after a failure that may pass."`
	Timeout  time.Duration `yaml:"timeout" doc:"One execution, default timeouts.step."`
	Approval string        `yaml:"approval" enum:"required" doc:"A person is asked before it is executed."`
}

// Input is an expression, or a mapping or list of such.
type Input struct {
	code    string            // of the whole
	members map[string]string // expressions by path
	names   []string          // of its members; nil when it is no mapping
}
