package llm

import (
	"context"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// counter counts the usage of one model call in the run, inside the call's Do. It records a provider's first count, that
// of the prompt, because the call can be interrupted, and later counts when the answer has doubled.
type counter struct {
	ctx     context.Context
	run     *plugins.Run
	counted agui.TokenUsage
}

// leastCount is the minimum number of new tokens for a record.
const leastCount = 512

// add counts the usage known so far.
func (c *counter) add(u agui.TokenUsage) error {
	u = limited(u)
	if c.counted.TotalTokens > 0 && u.TotalTokens-c.counted.TotalTokens < max(c.counted.OutputTokens, leastCount) {
		return nil
	}
	return c.report(plugins.ModelCall{Usage: u})
}

// end counts the rest of a finished call. The finish reason is recorded only for a call with an answer.
func (c *counter) end(call plugins.ModelCall, answered bool) error {
	if !answered {
		call.FinishReason = ""
		if call.Usage == (agui.TokenUsage{}) {
			return nil
		}
	}
	call.Usage = limited(call.Usage)
	return c.report(call)
}

func (c *counter) report(call plugins.ModelCall) error {
	all, before := call.Usage, c.counted
	call.More = before != (agui.TokenUsage{})
	more := false
	for _, n := range []struct{ now, then *int64 }{
		{&call.Usage.InputTokens, &before.InputTokens},
		{&call.Usage.OutputTokens, &before.OutputTokens},
		{&call.Usage.TotalTokens, &before.TotalTokens},
		{&call.Usage.ReasoningTokens, &before.ReasoningTokens},
		{&call.Usage.CachedInputTokens, &before.CachedInputTokens},
		{&call.Usage.CacheWriteInputTokens, &before.CacheWriteInputTokens},
	} {
		*n.now = max(0, *n.now-*n.then) // counted usage remains
		more = more || *n.now > 0
	}
	if !more && call.FinishReason == "" {
		return nil
	}
	c.counted = all
	return c.run.ModelCall(c.ctx, call)
}

// limited limits a provider's counts so that sums over many calls do not overflow.
func limited(u agui.TokenUsage) agui.TokenUsage {
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

// usageOf returns the usage of a call, with estimates for counts that the provider did not send: some never send any, and most
// send them with the complete answer, although an answer cut off by err costs tokens too. made is the size of the pieces
// received, in bytes.
func (t *turn) usageOf(ctx context.Context, resp *Response, req Request, made int, err error) agui.TokenUsage {
	u := resp.Usage
	switch refused := err != nil && made == 0 && ctx.Err() == nil; {
	case refused, err == nil && u.TotalTokens > 0:
		return u
	}
	if u.InputTokens == 0 {
		u.InputTokens = int64(t.estimate(req))
	}
	u.OutputTokens = max(u.OutputTokens, int64(max(made, resp.size())+3)/4)
	u.TotalTokens = max(u.TotalTokens, u.InputTokens+u.OutputTokens)
	return u
}

// size returns the bytes of a piece.
func (p *Piece) size() int {
	n := len(p.Text) + len(p.Reasoning)
	if p.Call != nil {
		n += len(p.Call.ID) + len(p.Call.Name) + len(p.Call.Arguments)
	}
	return n
}

// size returns the bytes of an answer.
func (r *Response) size() int {
	n := len(r.Text) + len(r.Reasoning)
	for _, c := range r.Calls {
		if c.FunctionCall != nil {
			n += len(c.FunctionCall.Name) + len(c.FunctionCall.Arguments)
		}
	}
	return n
}

// estimate returns an estimate of a request's tokens, computed as for turns.
func (t *turn) estimate(req Request) (tokens int) {
	for i := range req.Messages {
		tokens += 4
		for _, p := range req.Messages[i].Parts {
			switch p := p.(type) {
			case llms.TextContent:
				tokens += t.a.cfg.Count(p.Text)
			case llms.ToolCall:
				tokens += t.a.cfg.Count(p.FunctionCall.Name) + t.a.cfg.Count(p.FunctionCall.Arguments)
			case llms.ToolCallResponse:
				tokens += t.a.cfg.Count(p.Content)
			case Carried:
				tokens += t.a.cfg.Count(string(p.Data))
			default: // an image or a file
				tokens += 1000
			}
		}
	}
	if len(req.Options.Tools) > 0 {
		tokens += t.tools.tokens(t.a.cfg.Count)
	}
	return tokens
}
