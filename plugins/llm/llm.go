// Package llm is the worker that asks a language model and calls tools for it. A model is a llms.Model of langchaingo;
// the packages below this one are models of providers.
//
// A turn of the conversation is a loop: the model is asked, the tools it calls are called, all of one answer at once,
// and it is asked again with their results and with what a person has appended meanwhile, until it calls no more. Each
// answer of the model is one record and each call of a tool another, so that a process that dies pays for nothing
// twice: the answer that was cut short alone is made again, under a new message id.
package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// Config describes an agent that a language model plays.
type Config struct {
	Name        string
	Description string
	System      string        // what the model is told first
	Timeout     time.Duration // of one run, 0 means the server's default
	Concurrency int           // runs at once, 0 means no limit of its own
	Projects    []string      // those in which the agent is offered, default all

	// Model is asked. A Streamer shows text, reasoning and calls while they are made; of any other model its text is
	// shown, if it streams that.
	Model llms.Model
	// Fallback is asked when Model has failed, its retries included. nil means none.
	Fallback llms.Model
	Options  llms.CallOptions // of each call: MaxTokens, Temperature and the like
	// Retries is how often a call that failed with what may pass is made again, default 3, negative for never.
	Retries int

	// Tools are the names of tools and of agents that the model may call, or patterns as in files.*. The tools that the
	// client offers are always among them.
	Tools []string

	Steps  int              // calls of the model in one turn, default 16
	Tokens int64            // what they may take together, in and out, with the agents that they call; 0 means no limit
	Cost   float64          // what all of that may cost by Prices, in their currency; 0 means no limit
	Prices map[string]Price // by the name of the model

	// History is how many tokens of the thread's earlier turns the model is shown, default 32 000. Turns are kept and left
	// out as a whole, the latest first; the last one is always shown.
	History int
	// Summarise has the model sum up the turns that are left out, once for many of them, instead of forgetting them.
	Summarise bool
	// Count counts the tokens of a text. The default takes four bytes for one, which is near for English and too many
	// for most other languages.
	Count func(text string) int

	ShowState bool          // the model is shown the thread's state
	Items     ContextSource // resolves the run's contextItemIds; nil leaves them out
	// Structured asks the model for key points and suggested actions beside its answer, by a JSON Schema.
	Structured bool
}

// Price is what a million tokens of a model cost. CachedInput is the price of those input tokens that the provider had
// cached, Input when it is 0.
type Price struct {
	Input, CachedInput, Output float64
}

// Agent is a plugins.Agent that a language model plays.
type Agent struct {
	cfg   Config
	model Streamer
	other Streamer // asked when model has failed; may be nil
}

var _ plugins.Priced = (*Agent)(nil)

// New returns an agent. It fails when the configuration cannot be meant.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Model == nil:
		return nil, errors.New("has no model")
	case cfg.Steps < 0 || cfg.Tokens < 0 || cfg.Cost < 0 || cfg.History < 0:
		return nil, errors.New("a limit is negative")
	case cfg.Cost > 0 && len(cfg.Prices) == 0:
		return nil, errors.New("has a limit of costs and no prices")
	}
	for _, pattern := range cfg.Tools {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, fmt.Errorf("tools: %q is no pattern", pattern)
		}
	}
	cfg.Steps = cmp.Or(cfg.Steps, 16)
	cfg.History = cmp.Or(cfg.History, 32_000)
	cfg.Retries = max(cmp.Or(cfg.Retries, 3), 0)
	if cfg.Count == nil {
		cfg.Count = func(text string) int { return (len(text) + 3) / 4 }
	}
	a := &Agent{cfg: cfg, model: streamer(cfg.Model)}
	if cfg.Fallback != nil {
		a.other = streamer(cfg.Fallback)
	}
	return a, nil
}

// Info describes the agent.
func (a *Agent) Info() plugins.Info {
	return plugins.Info{Name: a.cfg.Name, Description: a.cfg.Description, Timeout: a.cfg.Timeout, Concurrency: a.cfg.Concurrency, Projects: a.cfg.Projects}
}

// Run plays one turn of the conversation.
func (a *Agent) Run(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	t := &turn{Agent: a, run: run, tools: offered(run, a.cfg.Tools)}
	if err := t.begin(ctx); err != nil {
		return agui.WorkerOutput{}, err
	}
	for {
		if err := t.hear(ctx); err != nil {
			return agui.WorkerOutput{}, err
		}
		ans, err := t.ask(ctx)
		if err != nil {
			return agui.WorkerOutput{}, err
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

// turn is one call of the worker.
type turn struct {
	*Agent
	run      *plugins.Run
	tools    *toolbox
	messages []llms.MessageContent
	past     map[string]agui.ToolCall      // earlier calls, by id
	attached map[string][]llms.ContentPart // what messages refer to, by their ids
	shown    int64                         // bytes of it
	steps    int
	tokens   int64
	cost     float64
}

// hear takes what was appended since the model was asked last.
func (t *turn) hear(ctx context.Context) error {
	appended, err := t.run.Next(ctx)
	for i := range appended {
		if attachErr := t.attach(ctx, &appended[i]); attachErr != nil {
			return attachErr
		}
		t.messages = append(t.messages, t.convert(&appended[i])...)
	}
	return err
}

// call makes the calls of an answer, all at once, and shows the model what came of them.
func (t *turn) call(ctx context.Context, ans *answer) error {
	calls := make([]plugins.ToolCall, len(ans.Calls))
	for i, c := range ans.Calls {
		calls[i] = plugins.ToolCall{Name: c.Name, ID: c.ID, Args: c.args()}
	}
	outs, err := t.run.CallTools(ctx, calls...)
	if err != nil {
		return err
	}
	t.messages = append(t.messages, t.tools.message(ans))
	var media []llms.ContentPart // providers take texts alone as results
	for i, c := range ans.Calls {
		for _, spent := range t.run.Spent(c.ID) {
			t.count(spent)
		}
		t.messages = append(t.messages, result(c.ProviderID, t.tools.wire(c.Name), edited(c.Arguments, &outs[i])+told(&outs[i])))
		media = append(media, t.mediaOf(t.tools.wire(c.Name), outs[i].Parts)...)
	}
	if media != nil {
		t.messages = append(t.messages, llms.MessageContent{Role: llms.ChatMessageTypeHuman, Parts: media})
	}
	return nil
}

// edited returns a note for the model if the call was made with other arguments than the model asked for, because the approver
// edited them. Otherwise it returns the empty string.
func edited(asked string, out *agui.ToolOutput) string {
	was, is := members(asked), members(string(out.ToolCallArgs))
	if was == nil || is == nil || reflect.DeepEqual(was, is) {
		return ""
	}
	return "The arguments of this call were changed to " + string(out.ToolCallArgs) + " before it was made.\n"
}

// members decodes a JSON object and keeps numbers as written. It returns nil for any other JSON.
func members(object string) (m map[string]any) {
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

// told is what the model learns of a call.
func told(out *agui.ToolOutput) string {
	if out.Status != agui.StatusFailure {
		return out.ResultSummary
	}
	if out.Error == nil {
		return "failed: " + out.ResultSummary
	}
	said := map[string]any{"error": map[string]any{
		"code": out.Error.Code, "message": out.Error.Message, "retryable": out.Error.Retryable,
	}}
	if out.ResultSummary != "" && !strings.HasPrefix(out.ResultSummary, out.Error.Message) { // which it mostly repeats
		said["content"] = out.ResultSummary // of a client's tool, beside its error
	}
	raw, _ := json.Marshal(said)
	return string(raw)
}

// count adds up what a call of the model took.
func (t *turn) count(u agui.TokenUsage) {
	t.tokens += max(u.TotalTokens, u.InputTokens+u.OutputTokens)
	t.cost += t.cfg.Prices[u.Model].of(u)
}

// of is what tokens cost.
func (p Price) of(u agui.TokenUsage) float64 {
	return (float64(u.InputTokens-u.CachedInputTokens)*p.Input +
		float64(u.CachedInputTokens)*cmp.Or(p.CachedInput, p.Input) + float64(u.OutputTokens)*p.Output) / 1e6
}

// Cost implements [plugins.Priced] by Config.Prices.
func (a *Agent) Cost(u agui.TokenUsage) (float64, bool) {
	p, known := a.cfg.Prices[u.Model]
	return p.of(u), known
}

// reached names the limit that keeps the model from being asked again, "" when there is none.
func (t *turn) reached() string {
	switch {
	case t.steps >= t.cfg.Steps:
		return fmt.Sprintf("a turn may take %d steps", t.cfg.Steps)
	case t.cfg.Tokens > 0 && t.tokens >= t.cfg.Tokens:
		return fmt.Sprintf("a turn may take %d tokens", t.cfg.Tokens)
	case t.cfg.Cost > 0 && t.cost >= t.cfg.Cost:
		return fmt.Sprintf("a turn may cost %g", t.cfg.Cost)
	}
	return ""
}
