// Package llm is a worker that calls a language model and the tools that it requests. A model is a llms.Model of
// langchaingo; the packages below this one are models of providers.
//
// A turn of the conversation is a loop: call the model, make all tool calls of its answer concurrently, and call it again
// with their results and any messages appended meanwhile, until it requests no more tools. Each answer and each tool call
// has its own record, so that after a crash only an incomplete answer is requested and paid again, under a new message
// id.
package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime/agui"
)

// Config describes an agent played by a language model.
type Config struct {
	Name        string
	Description string
	System      string        // the system prompt
	Timeout     time.Duration // of one run; 0 means the server's default
	Concurrency int           // maximum number of concurrent runs; 0 means no own limit
	RunOn       string        // label of the servers of a cluster that execute it, default all

	Approval bool             // calls of it as a tool need a person's approval
	Approver plugins.Approver // who may approve them, and what they see
	Projects []string         // projects in which the agent is offered, default all

	// Model is the language model. A Streamer streams text, reasoning and calls; other models stream text at most.
	Model llms.Model
	// Fallbacks are used in order if Model and its retries fail, or while it is down.
	Fallbacks []llms.Model
	// Options are those of each call: MaxTokens, Temperature etc. 0 is the provider's default, math.Copysign(0, -1) a temperature of 0.
	Options llms.CallOptions
	// Retries is the number of retries of a call that failed with a retryable error, default 3, negative for none.
	Retries int

	// Tools are the names of tools and agents that the model can call, or patterns such as files.*. The client's tools are
	// always included.
	Tools []string

	Steps  int   // maximum number of model calls in one turn, default 16
	Tokens int64 // maximum number of input and output tokens in one turn, including called agents; 0 means no limit

	// History limits the tokens of earlier turns in the prompt, default 32 000. Turns are included as a whole, the
	// latest first; the last turn is always included.
	History int
	// ContextTokens is the length of the model's context, by default that of a known model. Prompts are fitted into it.
	ContextTokens int
	// ResultTokens limits the part of a tool's result that the model gets at once, default 8 000 and at most a sixteenth of the
	// context. It reads the rest with ReadResult.
	ResultTokens int
	// Summarise makes the model summarize omitted turns, many of them at once, instead of dropping them.
	Summarise bool
	// Count counts the tokens of a text. The default is four bytes per token, which is close for English and too high
	// for most other languages.
	Count func(text string) int

	ShowState bool          // include the thread's state in the prompt
	Items     ContextSource // resolves the run's contextItemIds; nil ignores them
	// Output is a JSON Schema of the type object for the answer, which becomes the WorkerOutput's Result, or Structured. An answer
	// that does not satisfy it is requested again, at most twice; then the agent fails with the code bad_output. nil is free text.
	Output json.RawMessage

	Guards plugins.Guards // of the agent's input, tool calls and output

	Log *slog.Logger // receives the tools that the model does not get; default slog.Default
}

// Agent is a plugins.Agent played by a language model.
type Agent struct {
	cfg    Config
	models []Streamer // the fallbacks follow the model
	form   *form      // of answers, nil for free text
	left   *leftOut
}

var (
	_ host.Chooser     = (*Agent)(nil)
	_ host.Overridable = (*Agent)(nil)
	_ host.Reader      = (*Agent)(nil)
)

// New returns an agent. It fails for an invalid configuration.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Model == nil:
		return nil, errors.New("has no model")
	case cfg.Steps < 0 || cfg.Tokens < 0 || cfg.History < 0 || cfg.ContextTokens < 0 || cfg.ResultTokens < 0:
		return nil, errors.New("a limit is negative")
	}
	for _, pattern := range cfg.Tools {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("tools: %q is not a pattern", pattern)
		}
	}
	cfg.Steps = cmp.Or(cfg.Steps, 16)
	cfg.History = cmp.Or(cfg.History, 32_000)
	cfg.ResultTokens = cmp.Or(cfg.ResultTokens, 8_000)
	cfg.Retries = max(cmp.Or(cfg.Retries, 3), 0)
	if cfg.Count == nil {
		cfg.Count = func(text string) int { return (len(text) + 3) / 4 }
	}
	a := &Agent{cfg: cfg, models: []Streamer{streamer(cfg.Model)}, left: &leftOut{}}
	if cfg.Output != nil {
		form, err := newForm(cfg.Output)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		a.form = form
	}
	for _, m := range cfg.Fallbacks {
		if m == nil {
			return nil, errors.New("a fallback is nil")
		}
		a.models = append(a.models, streamer(m))
	}
	if m, ok := a.models[0].(Paced); ok && a.cfg.ContextTokens == 0 {
		_, model := m.Pacer()
		a.cfg.ContextTokens = contextOf(cmp.Or(cfg.Options.Model, model))
	}
	if n := a.cfg.ContextTokens; n > 0 {
		a.cfg.History, a.cfg.ResultTokens = min(a.cfg.History, n/2), min(a.cfg.ResultTokens, n/16)
	}
	return a, nil
}

// Info describes the agent.
func (a *Agent) Info() plugins.Info {
	info := plugins.Info{
		Name: a.cfg.Name, Description: a.cfg.Description, Timeout: a.cfg.Timeout, Concurrency: a.cfg.Concurrency, Projects: a.cfg.Projects,
		RunOn: a.cfg.RunOn, Guards: a.cfg.Guards, Approval: a.cfg.Approval, Approver: a.cfg.Approver,
	}
	if a.form != nil && !a.form.structured {
		info.Output = a.cfg.Output
	}
	return info
}

// Chooses implements host.Chooser.
func (a *Agent) Chooses() (patterns []string, most int) {
	if m, ok := a.models[0].(interface{ MaxTools() int }); ok {
		most = m.MaxTools()
	}
	return a.cfg.Tools, most
}

// Overridable implements host.Overridable.
func (a *Agent) Overridable() bool { return true }

// Reads implements host.Reader: prompts have no other members.
func (a *Agent) Reads(in plugins.Input) plugins.Input {
	in.ForwardedProps = nil
	if !a.cfg.ShowState {
		in.State = nil
	}
	if a.cfg.Items == nil {
		in.ContextItemIDs = nil
	}
	return in
}

// with returns the agent as a run overrides it.
func (a *Agent) with(o *plugins.ModelOverrides) *Agent {
	if o == nil {
		return a
	}
	other := *a
	if o.Model != "" {
		other.cfg.Options.Model, other.models = o.Model, a.models[:1]
		other.cfg.ContextTokens = cmp.Or(contextOf(o.Model), a.cfg.ContextTokens)
	}
	if o.System != nil {
		other.cfg.System = *o.System
	}
	if p := o.Parameters; p != nil {
		set := &other.cfg.Options
		set.MaxTokens, set.Seed, set.StopWords = p.MaxTokens, p.Seed, p.Stop
		set.Temperature, set.TopP = option(p.Temperature), option(p.TopP)
	}
	return &other
}

// option returns a parameter as llms.CallOptions have it: 0 is unset, and -0 a 0.
func option(n *float64) float64 {
	switch {
	case n == nil:
		return 0
	case *n == 0:
		return math.Copysign(0, -1)
	}
	return *n
}

// Run executes one turn of the conversation.
func (a *Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	a = a.with(run.Input.Overrides)
	t := &turn{a: a, run: run, tools: offered(run, a.cfg.Tools)}
	t.conv = converter{a: a, run: run, tools: t.tools, results: results{most: 4 * a.cfg.ResultTokens}}
	if err := t.begin(ctx); err != nil {
		return agui.WorkerOutput{}, err
	}
	for {
		if err := t.addAppended(ctx); err != nil {
			return agui.WorkerOutput{}, err
		}
		ans, err := t.ask(ctx)
		if err != nil {
			return agui.WorkerOutput{}, t.tools.advise(err)
		}
		if len(ans.Calls) == 0 {
			return ans.output(), nil
		}
		if err := t.call(ctx, ans); err != nil {
			return agui.WorkerOutput{}, err
		}
		if limit := t.reached(); limit != "" {
			return agui.WorkerOutput{Status: agui.StatusPartialSuccess, Answer: "I stopped before I was done: " + limit + "."}, nil
		}
	}
}

// prompt is the model's view of the conversation.
type prompt struct {
	told     []llms.ContentPart // the instructions
	note     string             // the summary of earlier turns behind them, "" for none
	messages []message
	turns    []int                // where the turns of the thread begin in messages
	thread   [][]agui.Message     // these turns
	trimmed  plugins.PromptChange // what the history left out
	dropped  plugins.PromptChange // what compacting left out
}

// turn is one call of the worker.
type turn struct {
	prompt
	a      *Agent
	run    *plugins.Run
	tools  *toolbox
	conv   converter
	steps  int
	tokens int64

	toldLeftOut bool
	leavesOut   agui.Compaction // of the next prompt, which viewers are still to be told
}

// addAppended adds the messages appended since the last model call.
func (t *turn) addAppended(ctx context.Context) error {
	appended, err := t.run.Next(ctx)
	for i := range appended {
		if attachErr := t.conv.attach(ctx, &appended[i]); attachErr != nil {
			return attachErr
		}
	}
	t.messages = append(t.messages, t.conv.convert(appended)...)
	return err
}

// call makes all calls of an answer concurrently and adds the results to the conversation.
func (t *turn) call(ctx context.Context, ans *answer) error {
	calls := make([]plugins.ToolCall, len(ans.Calls))
	for i, c := range ans.Calls {
		calls[i] = plugins.ToolCall{Name: c.Name, ID: c.ID, Args: c.args(), Output: c.refused(ans.Call.FinishReason)}
		if calls[i].Output == nil && t.tools.reads && c.Name == ReadResult {
			calls[i].Output = t.conv.results.read(c.Arguments, func(id string) (io.ReadCloser, error) {
				return t.run.OpenResult(ctx, id)
			})
		}
	}
	outs, err := t.run.CallTools(ctx, calls...)
	if err != nil {
		return err
	}
	t.messages = append(t.messages, message{
		llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: t.tools.parts(ans.Text, ans.Calls, ans.Kept)},
		[]plugins.PromptMessage{sentAnswer("", ans.Text, ans.Calls)},
	})
	var media []llms.ContentPart // providers accept only text as results
	for i, c := range ans.Calls {
		for _, spent := range t.run.Spent(c.ID) {
			t.count(spent)
		}
		t.messages = append(t.messages, t.conv.result(c, edited(c.Arguments, &outs[i])+resultText(&outs[i])))
		media = append(media, t.a.mediaOf(t.tools.wire(c.Name), outs[i].Parts)...)
	}
	if media != nil {
		t.messages = append(t.messages, plainSent(llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: media})...)
	}
	return nil
}

// edited returns a note for the model if the approver changed the arguments of a call, otherwise the empty string.
func edited(asked string, out *agui.ToolOutput) string {
	was, is := members(asked), members(string(out.ToolCallArgs))
	if was == nil || is == nil || reflect.DeepEqual(was, is) {
		return ""
	}
	return "The arguments of this call were changed to " + string(out.ToolCallArgs) + " before it was made.\n"
}

// members decodes a JSON object with its numbers as written. It returns nil for other JSON.
func members(object string) (m map[string]any) {
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

// resultText returns a call's result in the form for the model.
func resultText(out *agui.ToolOutput) string {
	if out.Status != agui.StatusFailure {
		return out.ResultSummary
	}
	if out.Error == nil {
		return "failed: " + out.ResultSummary
	}
	said := map[string]any{"error": map[string]any{
		"code": out.Error.Code, "message": out.Error.Message, "retryable": out.Error.Retryable,
	}}
	if out.ResultSummary != "" && !strings.HasPrefix(out.ResultSummary, out.Error.Message) { // which usually repeats the error
		said["content"] = out.ResultSummary // of a client's tool
	}
	raw, _ := json.Marshal(said)
	return string(raw)
}

// count adds the usage of a model call.
func (t *turn) count(u agui.TokenUsage) {
	t.tokens += max(u.TotalTokens, u.InputTokens+u.OutputTokens)
}

// reached names the limit that forbids another model call, or returns "".
func (t *turn) reached() string {
	switch {
	case t.steps >= t.a.cfg.Steps:
		return fmt.Sprintf("a turn may take %d steps", t.a.cfg.Steps)
	case t.a.cfg.Tokens > 0 && t.tokens >= t.a.cfg.Tokens:
		return fmt.Sprintf("a turn may take %d tokens", t.a.cfg.Tokens)
	}
	return ""
}
