package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batonrun/baton/runtime/agui"
)

// Usage counts the tokens that a call of a model took. The run sums them by provider and model, and shows them in its
// row and with its end. TotalTokens is filled in when it is 0.
//
// ctx is the worker's, or that of the function of the Do that has called the model. There they are counted each time:
// the function is called again only when its record is lost, and the model is paid again. Outside of any Do they are
// counted once, however often the worker is called again: each use is recorded in its place, so the worker must report in
// the same order each time, and goroutines in a Branch each.
//
// Tokens of a call that should not have been made any more (see MayCallModel) are counted, too, and then it fails as that does: a
// worker that does not ask before learns it so.
func (r *Run) Usage(ctx context.Context, u agui.TokenUsage) error {
	refused := r.MayCallModel()
	if err := r.ModelCall(ctx, ModelCall{Usage: u}); err != nil {
		return err
	}
	return refused
}

// ModelCall is what one call of a model took, and how it ended.
type ModelCall struct {
	Usage        agui.TokenUsage
	FinishReason string // such as stop, tool_calls or length; empty when it is not known
	RequestID    string // the provider's, empty when there is none
}

// ModelCall is Usage of a call that might be made, which also says how it ended: the metadata of the run's end are those of the last call whose
// FinishReason is known.
func (r *Run) ModelCall(ctx context.Context, c ModelCall) error {
	u := &c.Usage
	for _, n := range []int64{
		u.InputTokens, u.OutputTokens, u.TotalTokens, u.ReasoningTokens, u.CachedInputTokens, u.CacheWriteInputTokens,
	} {
		if n < 0 {
			return fmt.Errorf("usage: %d tokens", n)
		}
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.InputTokens + u.OutputTokens
	}
	c.Usage = agui.AddUsage(nil, *u)[0] // within bounds
	c.FinishReason, c.RequestID = clip(c.FinishReason), clip(c.RequestID)
	use, _, err := r.use(ctx, r.alive, "usage", "", nil)
	if err != nil {
		return err
	}
	if r.scopeOf(ctx).do != nil {
		use.Place += "@" + r.host.NewID() // of this call of the function
	}
	return r.host.Usage(ctx, use, c)
}

// ModelWatcher is a Host that wants to know of calls of models while they are made: how long they take, and which fail.
type ModelWatcher interface {
	// BeginModelCall is told that a model is called, in a worker or in the function of a Do. It returns the context for the
	// call, and what is told once how it has ended: what the call took, as far as it is known, and why it has failed.
	BeginModelCall(ctx context.Context) (context.Context, func(c ModelCall, err error))
}

// BeginModelCall tells that the worker calls a model: the call is made with the context that is returned, and its end is
// told with the function. The log shows it as CUSTOM events (agui.ModelCall), and so do the server's metrics and traces.
// Nothing of that counts as what the run has used, which is what ModelCall is for. A call whose end nobody has told, as the
// worker has panicked, has failed once the worker has returned; an end that is told later or twice is not heard.
func (r *Run) BeginModelCall(ctx context.Context) (context.Context, func(c ModelCall, err error)) {
	w, ok := r.host.(ModelWatcher)
	if !ok {
		return ctx, func(ModelCall, error) {}
	}
	ctx, end := w.BeginModelCall(ctx)
	call := &modelCall{end}
	r.mu.Lock()
	r.models = append(r.models, call)
	r.mu.Unlock()
	return ctx, func(c ModelCall, err error) {
		r.mu.Lock()
		at := slices.Index(r.models, call)
		if at >= 0 {
			r.models = slices.Delete(r.models, at, at+1)
		}
		r.mu.Unlock()
		if at >= 0 {
			end(c, err)
		}
	}
}

// modelCall is a call of a model of which nobody has told how it ended.
type modelCall struct{ end func(ModelCall, error) }

// giveUp ends the calls of models that the worker has left. r.mu is held.
func (r *Run) giveUp() {
	for _, call := range r.models {
		call.end(ModelCall{}, errUntold)
	}
	r.models = nil
}

// errUntold is why a call of a model has failed of which nobody has told how it ended.
var errUntold = errors.New("the worker has returned and did not tell how the call of the model ended")

// ModelLimiter is a Host that says whether a model may be called.
type ModelLimiter interface {
	// MayCallModel fails with an *Error when the run's project has used up what it may spend on models.
	MayCallModel() error
}

// MayCallModel fails with an *Error of the code tokens_exceeded while the run's project has used up the tokens that it may
// use a day. A worker asks before it calls a model, and returns the error; what has been spent counts all the same.
func (r *Run) MayCallModel() error {
	if l, ok := r.host.(ModelLimiter); ok {
		return l.MayCallModel()
	}
	return nil
}

// clip keeps a provider's own words within a length.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// Spent returns what the agent that a call of a tool has run took of models, with those that it has called in turn, by
// provider and model; nil for a call that ran none. call is the ID of one that was announced. It is the same whenever the
// worker is called again, once the call has its result.
func (r *Run) Spent(call string) []agui.TokenUsage {
	return r.host.Spent(r.announcedUse(call, ""))
}
