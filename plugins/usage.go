package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/agui"
)

// Usage counts the tokens of a model call. The run sums them by provider and model, in its row and at its end. TotalTokens
// is computed if it is 0.
//
// ctx is the worker's context, or that of the Do's function that called the model. Inside a Do each call of Usage counts:
// the function runs again only if its record was lost, and the model is paid again. Outside of any Do usage is recorded
// by its place and counted once, so the worker must report in the same order on replay, and goroutines need a Branch
// each.
//
// If a budget was used up before, Usage outside of any Do counts the tokens and then fails as MayCallModel does. Inside a Do it does
// not, because the call would be made again: call MayCallModel there.
func (r *Run) Usage(ctx context.Context, u agui.TokenUsage) error {
	var refused error
	if r.scopeOf(ctx).do == nil {
		refused = r.checkBudgets()
	}
	if err := r.ModelCall(ctx, ModelCall{Usage: u}); err != nil {
		return err
	}
	return refused
}

// ModelCall is the usage and result of one model call.
type ModelCall struct {
	Usage        agui.TokenUsage
	FinishReason string // such as stop, tool_calls or length; empty if unknown
	RequestID    string // the provider's id, empty if there is none
	More         bool   // a further part of the call that was reported last, which counts as one call
}

// ModelCall is like Usage, but does not check budgets and also records the result: the metadata of the run's
// end are those of the last call with a known FinishReason.
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
	c.Usage = agui.AddUsage(nil, *u)[0] // keeps the counts within bounds
	if c.FinishReason, c.RequestID = clip(c.FinishReason), clip(c.RequestID); len(r.guards.Output) > 0 {
		c = plainCall(c)
		if r.external {
			c.Usage.Provider, c.Usage.Model = "", "" // any text of another program
		}
	}
	use, _, err := r.use(ctx, r.alive, "usage", "", nil)
	if err != nil {
		return err
	}
	if r.scopeOf(ctx).do != nil {
		use.Place += "@" + r.host.NewID() // the function may run again
	}
	err = r.host.Usage(ctx, use, c)
	r.settleCall(r.scopeOf(ctx), &c.Usage)
	return err
}

// plainCall returns a call without free texts of its provider.
func plainCall(c ModelCall) ModelCall {
	c.RequestID = ""
	switch c.FinishReason {
	case "", "stop", "tool_calls", "length", "content_filter":
	default:
		c.FinishReason = "other"
	}
	return c
}

// Idle calls wait, which waits for another service and uses little of this server meanwhile, in a worker or in the function of a Do.
// The run can lend its slot to another run until wait returns, and Idle returns once the run has one again. It returns wait's error.
func (r *Run) Idle(ctx context.Context, wait func() error) error {
	if h, ok := r.host.(interface {
		Idle(ctx context.Context, wait func() error) error
	}); ok {
		return h.Idle(ctx, wait)
	}
	return wait()
}

// WaitForPace is Idle for a wait for a provider's rate limits, until a time, zero if it is unknown. While the run lends its
// slot it shows that it waits. The time does not count towards the execution's timeout, only towards the run's.
func (r *Run) WaitForPace(ctx context.Context, until time.Time, wait func() error) error {
	if h, ok := r.host.(interface {
		WaitForPace(ctx context.Context, until time.Time, wait func() error) error
	}); ok {
		return h.WaitForPace(ctx, until, wait)
	}
	return wait()
}

// endModelCalls ends the model calls that the worker left open. The caller holds r.mu.
func (r *Run) endModelCalls() {
	for _, call := range r.models {
		call.end(ModelCall{}, nil, errUnreported)
	}
	r.models = nil
}

// errUnreported is the error of a model call without a reported end.
var errUnreported = errors.New("the worker returned before it reported the end of its model call")

// MayCallModel reserves the estimated usage of a model call in the run's budgets. It waits while other calls have reserved what it needs, and fails
// with an *Error of the code budget_exceeded once a budget is used up. For a budget that asks it returns ErrWaiting until an operator has
// answered, like Ask. A worker calls it before each model call, with the context of that call's Do if there is one, and returns the error. Tokens
// already used count anyway.
//
// The estimate has the model, the tokens of the prompt and the most that the answer may have, 0 if it is unknown. ModelCall settles the
// reservation, of which the rest ends with the next MayCallModel there, with the Do, or with the worker.
func (r *Run) MayCallModel(ctx context.Context, estimate agui.TokenUsage) error {
	l, ok := r.host.(interface {
		ReserveModelCall(ctx context.Context, estimate agui.TokenUsage) (settle func(used *agui.TokenUsage), err error)
	})
	if !ok {
		return nil
	}
	s := r.scopeOf(ctx)
	r.settleCall(s, nil)
	settle, err := l.ReserveModelCall(ctx, estimate)
	if err != nil {
		return r.noteWaiting(err)
	}
	r.mu.Lock()
	ended := r.reserved == nil
	if !ended {
		r.reserved[s] = settle
	}
	r.mu.Unlock()
	if ended {
		settle(nil)
	}
	return nil
}

// settleCall lowers the reservation of a scope's model call by what was used, or ends it.
func (r *Run) settleCall(s *scope, used *agui.TokenUsage) {
	r.mu.Lock()
	settle := r.reserved[s]
	if used == nil {
		delete(r.reserved, s)
	}
	r.mu.Unlock()
	if settle != nil {
		settle(used)
	}
}

// settleCalls ends the reservations of a worker that has returned.
func (r *Run) settleCalls() {
	r.mu.Lock()
	all := r.reserved
	r.reserved = nil
	r.mu.Unlock()
	for _, settle := range all {
		settle(nil)
	}
}

// checkBudgets is MayCallModel about a call that was made already.
func (r *Run) checkBudgets() error {
	if l, ok := r.host.(interface{ MayCallModel() error }); ok {
		return r.noteWaiting(l.MayCallModel())
	}
	return nil
}

// clip limits the length of text from a provider.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "") }

// Spent returns the tokens used by an agent that a tool call ran, including the agents it called in turn, by provider and
// model; nil if the call ran none. call is the ID of an announced call. Once the call has its result, the value is the
// same on each replay.
func (r *Run) Spent(call string) []agui.TokenUsage {
	return r.host.Spent(r.announcedUse(call, ""))
}
