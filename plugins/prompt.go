package plugins

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Remember stores a text under a key, for later runs of this agent on this thread. The first text of a key stays. The text is deleted with the
// run of the message about, or with this run if about is "". Clients and other agents can neither read nor write it. Remember does nothing
// in an agent that another agent has called, and on a host that does not store threads.
func (r *Run) Remember(about, key, text string) error {
	if h, ok := r.host.(interface {
		Remember(about, key, text string) error
	}); ok {
		return h.Remember(about, key, text)
	}
	return nil
}

// Recall returns the texts that the agent has remembered, by key. Other keys are absent.
func (r *Run) Recall(ctx context.Context, keys []string) (texts map[string]string, err error) {
	if h, ok := r.host.(interface {
		Recall(ctx context.Context, keys []string) (texts map[string]string, err error)
	}); ok {
		return h.Recall(ctx, keys)
	}
	return nil, nil
}

// Prompt is a worker's request to a model, kept to explain the model's answer later. It never has
// credentials. Tools, calls and results have the names and IDs of the log, whatever the provider calls them.
type Prompt struct {
	Provider   string
	Model      string
	System     []string // the instructions, one part after the other
	Messages   []PromptMessage
	Tools      []PromptTool
	Parameters json.RawMessage // of the request, such as its temperature: an object, nil for none
	Changes    []PromptChange  // of the conversation as a whole
}

// PromptMessage is a message of a Prompt: its role, content, ToolCalls and ToolCallID. The parts of its content are texts, and the
// descriptions of media instead of their bytes.
type PromptMessage struct {
	agui.Message
	Changes []PromptChange // that made it differ from the message in the log
}

// PromptTool is a tool offered to the model.
type PromptTool struct {
	Name        string          `json:"name"`                  // The tool's name.
	Description string          `json:"description,omitempty"` // What the tool does, for the model.
	Parameters  json.RawMessage `json:"parameters,omitempty"`  // JSON Schema of the arguments.
}

// PromptChange is a difference between the log and the prompt.
type PromptChange struct {
	// `shortened`: a tool's result. `dropped` or `summarised`: the conversation up to a message. `replaced`: the arguments of a call.
	// `left_out`: a tool. `removed`: messages of a deleted run. `cut`: by this response, or for its size. Agents may add kinds of their
	// own.
	Kind string `json:"kind"`
	Of   string `json:"of"`  // The id of the message or call, or the name of the tool.
	Why  string `json:"why"` // The reason, as text.
}

// Kinds of a PromptChange.
const (
	PromptShortened  = "shortened"  // a tool's result
	PromptDropped    = "dropped"    // the conversation up to a message
	PromptSummarised = "summarised" // likewise, and the instructions have a summary
	PromptReplaced   = "replaced"   // the arguments of a call
	PromptLeftOut    = "left_out"   // a tool that the provider does not accept
)

// ModelAnswer is the answer to a Prompt as the model gave it.
type ModelAnswer struct {
	Text       string
	Reasoning  string
	Calls      []agui.ToolCall
	FirstToken time.Duration  // from the beginning of the call to the first piece of the answer, 0 if there was none
	Changes    []PromptChange // that became known during the call
}

// BeginModelCall reports the start of a model call to the log (see agui.ModelCall), metrics and traces. Make the call with
// the returned context, then report its end with the function. Usage is counted separately, by ModelCall. A call without
// an end, for instance after a panic, fails when the worker returns; later or repeated reports are ignored.
func (r *Run) BeginModelCall(ctx context.Context) (context.Context, func(c ModelCall, err error)) {
	ctx, end := r.SendPrompt(ctx, nil)
	return ctx, func(c ModelCall, err error) { end(c, nil, err) }
}

type modelCallKey struct{}

// WithModelCall returns the context of a model call that has an ID in the log. A Host calls it.
func WithModelCall(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, modelCallKey{}, id)
}

// KeepsPrompts reports whether SendPrompt stores prompts.
func (r *Run) KeepsPrompts() bool {
	k, ok := r.host.(interface{ KeepsPrompts() bool })
	return ok && k.KeepsPrompts()
}

// SendPrompt is BeginModelCall for a worker that tells what the model is sent and how it answers, which may be nil. The prompt is
// stored with the start of the call. The Prompt and the ModelAnswer must not be changed afterwards.
func (r *Run) SendPrompt(ctx context.Context, p *Prompt) (context.Context, func(c ModelCall, a *ModelAnswer, err error)) {
	w, ok := r.host.(interface {
		BeginModelCall(ctx context.Context, p *Prompt) (context.Context, func(c ModelCall, a *ModelAnswer, err error))
	})
	if !ok {
		return ctx, func(ModelCall, *ModelAnswer, error) {}
	}
	held := len(r.guards.Output) > 0 // a guard decides what anybody sees of the answer
	if held {
		p = nil
	}
	ctx, end := w.BeginModelCall(ctx, p)
	call := &modelCall{end}
	r.mu.Lock()
	r.models = append(r.models, call)
	r.mu.Unlock()
	return ctx, func(c ModelCall, a *ModelAnswer, err error) {
		r.mu.Lock()
		at := slices.Index(r.models, call)
		if at >= 0 {
			r.models = slices.Delete(r.models, at, at+1)
		}
		r.mu.Unlock()
		if held {
			c, a = plainCall(c), nil
		}
		if at >= 0 {
			end(c, a, r.conceal(ctx, err))
		}
	}
}

// modelCall is a model call that has not ended.
type modelCall struct {
	end func(ModelCall, *ModelAnswer, error)
}
