package llm

import (
	"context"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// counter counts in the run what one call of the model takes, in the Do of that call. The first count of a provider is
// worth a record, as the call may be cut: that of the prompt. Later ones are when the answer has doubled.
type counter struct {
	ctx     context.Context
	run     *plugins.Run
	counted agui.TokenUsage
}

// leastCount is how many tokens more are worth a record of their own.
const leastCount = 512

// add counts what is known so far.
func (c *counter) add(u agui.TokenUsage) error {
	u = sane(u)
	if c.counted.TotalTokens > 0 && u.TotalTokens-c.counted.TotalTokens < max(c.counted.OutputTokens, leastCount) {
		return nil
	}
	return c.report(plugins.ModelCall{Usage: u})
}

// end counts what is left of a call that is over. Only how one has ended that gave an answer is worth telling.
func (c *counter) end(call plugins.ModelCall, answered bool) error {
	if !answered {
		call.FinishReason = ""
		if call.Usage == (agui.TokenUsage{}) {
			return nil
		}
	}
	call.Usage = sane(call.Usage)
	return c.report(call)
}

func (c *counter) report(call plugins.ModelCall) error {
	all, before := call.Usage, c.counted
	more := false
	for _, n := range []struct{ now, then *int64 }{
		{&call.Usage.InputTokens, &before.InputTokens},
		{&call.Usage.OutputTokens, &before.OutputTokens},
		{&call.Usage.TotalTokens, &before.TotalTokens},
		{&call.Usage.ReasoningTokens, &before.ReasoningTokens},
		{&call.Usage.CachedInputTokens, &before.CachedInputTokens},
		{&call.Usage.CacheWriteInputTokens, &before.CacheWriteInputTokens},
	} {
		*n.now = max(0, *n.now-*n.then) // what has been counted stays
		more = more || *n.now > 0
	}
	if !more && call.FinishReason == "" {
		return nil
	}
	c.counted = all
	return c.run.ModelCall(c.ctx, call)
}

// sane is what a provider counts, without what would make the sum of many calls none.
func sane(u agui.TokenUsage) agui.TokenUsage {
	const most = 1e12
	for _, n := range []*int64{
		&u.InputTokens, &u.OutputTokens, &u.TotalTokens, &u.ReasoningTokens, &u.CachedInputTokens, &u.CacheWriteInputTokens,
	} {
		*n = max(0, min(*n, most))
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.InputTokens + u.OutputTokens
	}
	return u
}
