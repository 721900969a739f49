package plugins

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/runtime/agui"
)

// Usage counts the tokens that a call of a model took. The run sums them by provider and model, and shows them in its
// row and with its end. TotalTokens is filled in when it is 0.
//
// Inside of a Do they are counted with its record, elsewhere at once. In either case they are counted once, however often
// the worker is called again: outside of a Do the n-th use is recorded, so the worker must report in the same order each
// time. ctx is the worker's, or that of the Do.
func (r *Run) Usage(ctx context.Context, u agui.TokenUsage) error {
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
	r.mu.Lock()
	err := r.alive()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.host.Usage(ctx, u)
}
