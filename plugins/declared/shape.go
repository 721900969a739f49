package declared

import (
	"encoding/json"
	"time"

	"github.com/batonrun/baton/plugins"
)

// file is the declarations in a file of settings. A doc tag is the description in the JSON Schema.
type file struct {
	Agents    map[string]*Agent    `yaml:"agents" doc:"Agents by name: a model of a provider, an AG-UI endpoint, or a program."`
	MCP       map[string]*Server   `yaml:"mcp" doc:"MCP servers by name, whose tools are offered as name.tool."`
	Tools     map[string]*Tools    `yaml:"tools" doc:"Programs that speak Baton's protocol, by name, whose tools are offered as name.tool."`
	Workflows map[string]*Workflow `yaml:"workflows" doc:"Graphs of agents and tools by name."`
	Prices    *Prices              `yaml:"prices" doc:"Prices of models, by which the costs of model calls are computed."`
	Budgets   map[string]*Budget   `yaml:"budgets" doc:"What model calls may use, by the budget's name. A call reserves its estimate before it is made."`
	Providers map[string]*Provider `yaml:"providers" doc:"Limits of model providers, by the provider's name, or by base_url for agents with one. Calls wait for them."`
}

// Provider is the limits of a provider, for all its agents in this process.
type Provider struct {
	RPM        int `yaml:"rpm" doc:"Requests in a minute; default what the provider's answers say."`
	TPM        int `yaml:"tpm" doc:"Tokens of requests and answers in a minute; default what the provider's answers say."`
	Concurrent int `yaml:"concurrent" doc:"Calls at once, default no limit."`
}

// Agent is a declared agent. It has a Provider, an AGUI or a Command.
type Agent struct {
	Name        string `yaml:"-"`
	Description string `yaml:"description" doc:"Its purpose; agents that can call it see this."`

	Provider   string  `yaml:"provider" enum:"openai,anthropic,google,ollama" doc:"The model's provider."`
	Model      string  `yaml:"model" doc:"The model's name at the provider."`
	BaseURL    string  `yaml:"base_url" doc:"URL of the provider's API or of a compatible server; default from its environment variable, otherwise the provider's own."`
	APIKey     string  `yaml:"api_key" doc:"The provider's key; default from its environment variable."`
	API        string  `yaml:"api" enum:"chat,responses" doc:"OpenAI's API: responses is the default for OpenAI itself, chat for other servers."`
	APIVersion string  `yaml:"api_version" doc:"Azure's api-version; base_url is the resource's URL, and model the deployment."`
	Compat     *Compat `yaml:"compat" doc:"What the server accepts, where its address and its refusals do not suffice."`

	Parameters Parameters `yaml:"parameters" doc:"Parameters of each model call, also of calls of fallback models. Default those of the provider."`

	System string   `yaml:"system" doc:"The system prompt."`
	Tools  []string `yaml:"tools" doc:"Tools and agents that it can call: names, or patterns such as files.*"`

	Fallback      []*Model `yaml:"fallback" doc:"The models to use, in order, after this one and its retries have failed, or while it is down."`
	History       *History `yaml:"history" doc:"How much of the conversation the model gets."`
	ContextTokens int      `yaml:"context_tokens" doc:"Length of the model's context in tokens, default that of a known model. Prompts are fitted into it."`
	ResultTokens  int      `yaml:"result_tokens" doc:"Tokens of a tool's result that the model gets at once, default 8000, at most a sixteenth of the context; it reads the rest with read_result."`
	Output        *Output  `yaml:"output" doc:"The form of the answer: text (the default), structured for key points and suggested actions in addition to it, or a JSON Schema."`
	Context       []string `yaml:"context" doc:"Directories of text files that are context items, identified by their relative paths."`

	AGUI *Endpoint `yaml:"agui" doc:"An agent behind an AG-UI endpoint."`

	Command []string          `yaml:"command" doc:"A program that speaks Baton's protocol on its standard input and output, with its arguments."`
	Env     map[string]string `yaml:"env" doc:"Environment variables of the program in addition to PATH, HOME and LANG."`
	Dir     string            `yaml:"dir" doc:"The program's working directory, default the server's."`

	StartTimeout time.Duration `yaml:"start_timeout" doc:"Time limit of the program's start, default 30s."`

	Guard    Guards    `yaml:"guard" doc:"Agents, tools and expressions that may refuse or rewrite what the agent gets, calls and answers, or ask a person."`
	Limits   Limits    `yaml:"limits" doc:"Limits of one run."`
	Approval *Approval `yaml:"approval" doc:"required, or a mapping of who may approve and what they see: each call of the agent as a tool waits for a person's approval. The message is an expression of args."`
	RunOn    string    `yaml:"run_on" doc:"In a cluster, the label of the servers that execute its runs, default all servers."`
	Projects []string  `yaml:"projects" doc:"Projects in which the agent is offered, default all. Other projects do not see it."`
}

// Parameters are parameters of model calls. A provider that does not accept one gets the call without it.
type Parameters struct {
	Temperature     *float64 `yaml:"temperature" doc:"How random the answer is: 0 to 2."`
	TopP            *float64 `yaml:"top_p" doc:"The share of the most probable tokens to choose from: 0 to 1."`
	MaxOutputTokens int      `yaml:"max_output_tokens" doc:"Tokens of one answer."`
	Seed            int      `yaml:"seed" doc:"For repeatable answers, where the provider has it."`
	Stop            []string `yaml:"stop" doc:"Texts at which the answer ends: up to 16, of 1 to 200 bytes each."`
	Reasoning       string   `yaml:"reasoning" doc:"How much a reasoning model reasons: low, medium, high or another word or number that it has."`
}

// Guards check an agent.
type Guards struct {
	Input  []*Guard `yaml:"input" doc:"Guards of what people and clients give the agent, before it gets it."`
	Tool   []*Guard `yaml:"tool" doc:"Guards of each tool call, before it is made."`
	Output []*Guard `yaml:"output" doc:"Guards of the answer."`
}

// Guard is a guard. It has an Agent, a Tool or an Expr.
type Guard struct {
	Name    string        `yaml:"name" doc:"Its name in events, default that of the agent or tool."`
	Agent   string        `yaml:"agent" doc:"The agent to ask; it answers with a verdict as JSON."`
	Tool    string        `yaml:"tool" doc:"The tool to call; its result is a verdict as JSON."`
	Expr    Expression    `yaml:"expr" doc:"An expression over input, tool, args, output, result, user and project: true, false, the reason of a refusal, or a verdict."`
	Timeout time.Duration `yaml:"timeout" doc:"Time limit of one verdict, after which the guard refuses; default 1m."`
}

// Model is a model of a provider.
type Model struct {
	Provider string `yaml:"provider" enum:"openai,anthropic,google,ollama" doc:"The model's provider."`
	Model    string `yaml:"model" doc:"The model's name at the provider."`
	BaseURL  string `yaml:"base_url" doc:"URL of the provider's API."`
	APIKey   string `yaml:"api_key" doc:"The provider's key."`

	API        string  `yaml:"api" enum:"chat,responses" doc:"OpenAI's API: responses is the default for OpenAI itself, chat for other servers."`
	APIVersion string  `yaml:"api_version" doc:"Azure's api-version; base_url is the resource's URL, and model the deployment."`
	Compat     *Compat `yaml:"compat" doc:"What the server accepts, where its address and its refusals do not suffice."`
}

// Compat describes the capabilities of a model's server. Its fields are those of wire.Compat.
type Compat struct {
	Server      string   `yaml:"server" enum:"openai,azure,mistral,deepseek,moonshot,groq,openrouter,gemini,lmstudio,llamacpp,vllm" doc:"The server, if its address does not say so."`
	System      string   `yaml:"system" enum:"message,user" doc:"user puts the instructions before the first user's message."`
	First       string   `yaml:"first" enum:"user" doc:"user if the conversation has to begin with a user's message."`
	Bridge      bool     `yaml:"bridge" doc:"If true, an assistant's message is put between a tool's result and a user's message."`
	Content     string   `yaml:"content" enum:"null,empty,absent" doc:"The content of a message that has only calls."`
	CallIDs     string   `yaml:"call_ids" enum:"any,nine,word,short" doc:"The form of calls' ids: nine letters and digits, at most 64 letters, digits, dashes and underscores, or at most 40 characters."`
	Reasoning   string   `yaml:"reasoning" enum:"none,reasoning,reasoning_content" doc:"The member for earlier reasoning."`
	Media       []string `yaml:"media" doc:"Media types of images and files that the model takes, such as image/png or image/*."`
	Tools       int      `yaml:"tools" doc:"Maximum number of tools."`
	Description int      `yaml:"description" doc:"Maximum length of a tool's description, in bytes."`
	Schema      string   `yaml:"schema" enum:"json,openai,anthropic,gemini,ollama" doc:"The dialect of tools' schemas."`
}

// Prices are the prices of models in a currency.
type Prices struct {
	Currency string            `yaml:"currency" doc:"The currency of the prices, such as USD."`
	Models   map[string]*Price `yaml:"models" doc:"Prices of a million tokens, by the model's name at its provider."`
}

// Budget limits the use of model calls.
type Budget struct {
	Name  string  `yaml:"-"`
	Scope string  `yaml:"scope" enum:"project,user,agent,run" doc:"Each project, each user of a project, each agent or workflow of a project, or each run has the budget."`
	Of    string  `yaml:"of" doc:"The only project, user or agent that has the budget; for scope run the agent."`
	Per   string  `yaml:"per" enum:"day,month" doc:"The period, in UTC; a run's budget has none."`
	Unit  string  `yaml:"unit" doc:"tokens, of input and output, or the currency of prices."`
	Limit float64 `yaml:"limit" doc:"The limit, in that unit."`
	Over  string  `yaml:"over" enum:"stop,ask" doc:"stop (the default) fails runs at their next model call once the budget is used up; ask has them wait for an operator."`
}

// Price is the price of a million tokens.
type Price struct {
	Input       float64 `yaml:"input" doc:"Price of input tokens."`
	CachedInput float64 `yaml:"cached_input" doc:"Price of cached input tokens, default input."`
	Output      float64 `yaml:"output" doc:"Price of output tokens."`
}

// History limits the part of the conversation that the model gets.
type History struct {
	Tokens int    `yaml:"tokens" doc:"Tokens of earlier turns, default 32000; the latest turn is always included."`
	Over   string `yaml:"over" enum:"drop,summarise" doc:"Turns that do not fit are dropped (the default) or summarised by the model."`
}

// Endpoint is a remote AG-UI endpoint.
type Endpoint struct {
	URL     string            `yaml:"url" doc:"The endpoint for POSTs of RunAgentInput."`
	Headers map[string]string `yaml:"headers" doc:"Sent with each request."`
	Stop    string            `yaml:"stop" doc:"URL of POSTs that stop a run there, with {threadId} for the thread; for servers that continue a run after its connection was closed."`
}

// Limits limits an agent.
type Limits struct {
	Timeout     time.Duration `yaml:"timeout" doc:"Time limit of one execution, default timeouts.step."`
	MaxSteps    int           `yaml:"max_steps" doc:"Maximum number of model calls in one execution."`
	MaxTokens   int           `yaml:"max_tokens" doc:"Maximum number of tokens in one execution, including the agents that it calls."`
	Concurrency int           `yaml:"concurrency" doc:"Maximum number of concurrent runs, default no own limit."`
}

// Server is a declared MCP server. It has a Command or a URL.
type Server struct {
	Name     string            `yaml:"-"`
	Command  []string          `yaml:"command" doc:"A program that speaks MCP on its standard input and output, with its arguments."`
	Env      map[string]string `yaml:"env" doc:"Environment variables of the program in addition to PATH, HOME and LANG."`
	Dir      string            `yaml:"dir" doc:"The program's working directory, default the server's."`
	URL      string            `yaml:"url" doc:"An endpoint of MCP's streamable HTTP."`
	Headers  map[string]string `yaml:"headers" doc:"Sent with each request."`
	Allow    []string          `yaml:"allow" doc:"Tools of the server to offer: names, or patterns such as read_*; default all."`
	Approval []string          `yaml:"approval" doc:"Tools that need a person's approval for each call: names or patterns."`
	Approver *Approver         `yaml:"approver" doc:"Who may approve these calls, and what they see. The message is an expression of args."`
	Timeout  time.Duration     `yaml:"timeout" doc:"Time limit of one call, default timeouts.tool."`
	Projects []string          `yaml:"projects" doc:"Projects in which its tools are offered, default all."`
	Required bool              `yaml:"required" doc:"If true, Baton is not ready while the server is unavailable."`
}

// Tools is a declared program with tools.
type Tools struct {
	Name         string            `yaml:"-"`
	Command      []string          `yaml:"command" doc:"A program that speaks Baton's protocol on its standard input and output, with its arguments."`
	Env          map[string]string `yaml:"env" doc:"Environment variables of the program in addition to PATH, HOME and LANG."`
	Dir          string            `yaml:"dir" doc:"The program's working directory, default the server's."`
	Approver     *Approver         `yaml:"approver" doc:"Who may approve the calls for which the program asks that, and what they see, beside what the program says. The message is an expression of args."`
	StartTimeout time.Duration     `yaml:"start_timeout" doc:"Time limit of the program's start, default 30s."`
	Timeout      time.Duration     `yaml:"timeout" doc:"Time limit of one call, default timeouts.tool."`
	Projects     []string          `yaml:"projects" doc:"Projects in which its tools are offered, default all."`
}

// Workflow is a declared workflow.
type Workflow struct {
	Description string           `yaml:"description" doc:"Its purpose."`
	Projects    []string         `yaml:"projects" doc:"Projects in which the workflow is offered, default all that have its agents and tools."`
	Nodes       map[string]*Node `yaml:"nodes" doc:"Nodes by id. Nodes whose needs are met run in parallel."`
}

// Node is a node of a declared workflow. It has an Agent, a Tool, an Ask or a Wait.
type Node struct {
	Agent    string        `yaml:"agent" doc:"The agent to run."`
	Tool     string        `yaml:"tool" doc:"The tool to call."`
	Needs    []string      `yaml:"needs" doc:"Nodes that must end first."`
	When     Expression    `yaml:"when" doc:"An expression; the node is skipped unless it is true."`
	Input    *Input        `yaml:"input" doc:"An expression, or a mapping of expressions: an agent's query or a tool's arguments."`
	Map      *Map          `yaml:"map" doc:"A list: the node is executed for each of its items, as steps of the run."`
	Retry    *Retry        `yaml:"retry" doc:"Maximum number of retries after a retryable failure, or a mapping."`
	OnError  string        `yaml:"on_error" enum:"fail,continue" doc:"fail (the default): the failure of the node fails the run. continue: nodes that need it run, and can read NODE.status and NODE.error."`
	Repeat   *Repeat       `yaml:"repeat" doc:"The node is executed in rounds until an expression is true."`
	Timeout  time.Duration `yaml:"timeout" doc:"Time limit of one execution, default timeouts.step."`
	Ask      *Ask          `yaml:"ask" doc:"A question to a person, whose answer is the node's output."`
	Wait     *Wait         `yaml:"wait" doc:"A wait for a time or an event before the approval and the call. A node may be a wait alone."`
	Approval *Approval     `yaml:"approval" doc:"required, or a mapping of who may approve and what they see: the run waits for a person's approval before the node."`
}

// Ask is a question to a person.
type Ask struct {
	Message Expression      `yaml:"message" doc:"An expression for the question."`
	Schema  json.RawMessage `yaml:"schema" doc:"The JSON Schema of the answer, or a file with it, relative to the server's working directory; default any JSON."`
	By      string          `yaml:"by" enum:"user,operator,admin" doc:"The lowest role that may answer, default user: the run's user too."`
	Not     string          `yaml:"not" enum:"requester" doc:"requester: not the user who has started the run. It needs by: operator or admin, and has no effect without accounts."`
	Expires time.Duration   `yaml:"expires" doc:"How long the question stays open, default timeouts.approval."`
	Else    *Else           `yaml:"else" doc:"What a declined or expired question does."`
}

// Who returns the approver of answers to a, nil for a nil Ask.
func (a *Ask) Who() *Approver {
	if a == nil {
		return nil
	}
	return &Approver{By: a.By, Not: a.Not, Message: a.Message, Expires: a.Expires}
}

// plugins returns a as plugins have it, nil for nil.
func (a *Ask) plugins() *plugins.Ask {
	if a == nil {
		return nil
	}
	p := &plugins.Ask{Schema: a.Schema}
	if a.Else != nil {
		p.Skip, p.Output = a.Else.Skip, string(a.Else.Output)
	}
	return p
}

// Else is the effect of a question that is declined or has expired.
type Else struct {
	Fail   bool       `yaml:"fail" doc:"true (the default): the node fails with unanswered."`
	Skip   bool       `yaml:"skip" doc:"true: the node is skipped."`
	Output Expression `yaml:"output" doc:"An expression for the node's output."`
}

// Retry is the policy for retries: the maximum number alone, or a mapping.
type Retry struct {
	Max      int           `yaml:"max" doc:"Maximum number of retries after a failure."`
	On       []string      `yaml:"on" doc:"Codes of errors: only these are retried, and whether or not they are retryable."`
	Backoff  time.Duration `yaml:"backoff" doc:"The pause before the first retry, default 500ms; it doubles each time."`
	MaxDelay time.Duration `yaml:"max_delay" doc:"The longest pause, default 30s."`
}

// plugins returns r as plugins have it, no retries for nil.
func (r *Retry) plugins() (p plugins.Retry) {
	if r == nil {
		return p
	}
	return plugins.Retry{Retries: r.Max, Initial: r.Backoff, Max: r.MaxDelay, On: r.On}
}

// Repeat is the policy for rounds.
type Repeat struct {
	Until Expression `yaml:"until" doc:"An expression, which sees the node's output of the round as NODE: the node is over once it is true."`
	Max   int        `yaml:"max" doc:"Maximum number of rounds, default 10, at most 100."`
	OnMax string     `yaml:"on_max" enum:"partial,fail" doc:"What the last round does if the expression is not true: the node ends with the status partial_success (the default), or fails with repeat_max."`
}

// plugins returns r as plugins have it, no rounds for nil.
func (r *Repeat) plugins() (p plugins.Repeat) {
	if r == nil {
		return p
	}
	return plugins.Repeat{Until: string(r.Until), Max: r.Max, Fail: r.OnMax == "fail"}
}

// Wait is a wait for a time or an event. It has For, Until or Event.
type Wait struct {
	For    time.Duration `yaml:"for" doc:"How long to wait."`
	Until  Expression    `yaml:"until" doc:"An expression for the end: an RFC 3339 time, a time of day with a zone such as 09:00 Europe/Berlin, or a duration."`
	Event  string        `yaml:"event" doc:"The name of an event from outside, for a node that is a wait alone. Its output is the payload."`
	Within time.Duration `yaml:"within" doc:"How long to wait for the event, default and at most 365d. Then the node has the status expired."`
}

// plugins returns w as plugins have it, no wait for nil.
func (w *Wait) plugins() (p plugins.NodeWait) {
	if w == nil {
		return p
	}
	return plugins.NodeWait{For: w.For, Until: string(w.Until), Event: w.Event, Within: w.Within}
}

// Map is the list of a node that is executed for each item.
type Map struct {
	Over  Expression `yaml:"over" doc:"An expression for the list, of up to 100 items. It is evaluated once, when the node begins."`
	As    string     `yaml:"as" doc:"The item's name in key and in the node's input, default item. Without an input the item itself is the input."`
	Key   Expression `yaml:"key" doc:"An expression for the item's key, a string or a number, default its index from 0. Keys must differ."`
	Max   int        `yaml:"max" doc:"Items at once, 1 to 100, default 8. An item that waits counts."`
	Items string     `yaml:"items" enum:"fail,collect,skip" doc:"What a failed item does: fail, the default, fails the node and stops the others; collect puts null in its place; skip leaves it out."`
}

// plugins returns m as plugins have it. A nil Map is none.
func (m *Map) plugins() *plugins.Map {
	if m == nil {
		return nil
	}
	return &plugins.Map{Over: string(m.Over), As: m.As, Key: string(m.Key), Max: m.Max, OnError: m.Items}
}

// Approval is the need of an approval: the word required, or an Approver.
type Approval struct{ Approver }

// Who returns the approver of a, nil for a nil Approval.
func (a *Approval) Who() *Approver {
	if a == nil {
		return nil
	}
	return &a.Approver
}

// Approver says who may give an approval, and what they see.
type Approver struct {
	By      string        `yaml:"by" enum:"user,operator,admin" doc:"The lowest role that may approve, default user: the run's user too."`
	Not     string        `yaml:"not" enum:"requester" doc:"requester: not the user who has started the run. It needs by: operator or admin, and has no effect without accounts."`
	Message Expression    `yaml:"message" doc:"An expression for the question, default one with the name."`
	Expires time.Duration `yaml:"expires" doc:"How long the approval stays open, default timeouts.approval."`
	Edit    *bool         `yaml:"edit" doc:"false: the arguments may not be edited, default true."`
}

// Plugins returns a as plugins have it. A nil Approver is the default.
func (a *Approver) Plugins() (p plugins.Approver) {
	if a == nil {
		return p
	}
	return plugins.Approver{By: a.By, NotRequester: a.Not != "", Message: string(a.Message), Expires: a.Expires, NoEdit: a.Edit != nil && !*a.Edit}
}

// Expression is an expression as it is written. Its variables are constants of it.
type Expression string

// Input is an expression, or a mapping or list of expressions.
type Input struct {
	code    string            // the whole as one expression
	members map[string]string // expressions by path
	names   []string          // of its members; nil if it is not a mapping
}

// Output is the form of an agent's answers.
type Output struct {
	Structured bool            // with key points and suggested actions
	Schema     json.RawMessage // JSON Schema of the answer, nil for none
}
