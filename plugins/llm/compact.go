package llm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

// maxCompactions limits how often a prompt is compacted because the provider says that it is too long.
const maxCompactions = 4

// reserve is the part of the context that is kept for the answer, in tokens.
func (t *turn) reserve(window int) int {
	if n := t.a.cfg.Options.MaxTokens; n > 0 {
		return min(n, window/2)
	}
	return min(window/4, 4096)
}

// room returns the tokens that a prompt may have, 0 if that is unknown.
func (t *turn) room() int {
	if t.a.cfg.ContextTokens == 0 {
		return 0
	}
	return t.a.cfg.ContextTokens - t.reserve(t.a.cfg.ContextTokens)
}

// promptSize returns the estimated tokens of the next request.
func (t *turn) promptSize() int {
	return t.estimate(Request{Messages: contents(t.messages), Options: llms.CallOptions{Tools: t.tools.list}})
}

// fitted is one compaction of the prompt.
type fitted struct {
	Target int    `json:"target"`         // tokens
	Note   string `json:"note,omitempty"` // the summary of the dropped turns and those before
}

// fitInto compacts the prompt, records that in the answer, and reports whether the prompt is shorter now. The
// summary of dropped turns has a record of its own: a crash before the answer's does not repeat it.
func (t *turn) fitInto(ctx context.Context, target int, ans *answer) (less bool, err error) {
	before, thread := t.promptSize(), t.thread
	done := t.compact(target)
	if t.promptSize() >= before {
		return false, nil
	}
	f := fitted{Target: target}
	if t.a.cfg.Summarise && done.Dropped > 0 {
		sum := trimmed{Turns: done.Dropped}
		err := t.run.Do(ctx, fmt.Sprintf("summary-%d", len(t.thread)), &sum, func(ctx context.Context) error {
			return t.summarize(ctx, t.note, thread[:done.Dropped], &sum)
		})
		if err != nil {
			return false, err
		}
		if sum.Call != nil {
			ans.Lost = append(ans.Lost, *sum.Call)
		}
		f.Note, done.Summarised = sum.Note, sum.Note != ""
		t.sumUp(f.Note)
	}
	ans.Fitted = append(ans.Fitted, f)
	t.leavesOut.Shortened += done.Shortened
	t.leavesOut.Dropped += done.Dropped
	t.leavesOut.Summarised = t.leavesOut.Summarised || done.Summarised
	return true, nil
}

// showCompacted shows viewers once how the prompt of the call with that context was shortened.
func (t *turn) showCompacted(call context.Context) error {
	told := t.leavesOut
	t.leavesOut = agui.Compaction{}
	if told == (agui.Compaction{}) {
		return nil
	}
	return t.run.Compacted(call, told)
}

// compact makes the prompt as short as target tokens, if it can: it shortens the oldest results of tools, except those of the last
// calls, then drops the oldest turns, then shortens all results. The result depends only on the
// conversation and target, because a replay compacts the prompt again.
func (t *turn) compact(target int) (c agui.Compaction) {
	enough := func() bool { return t.promptSize() <= target }
	before := len(t.messages)
	last := before
	for last > 0 && t.messages[last-1].Role != llms.ChatMessageTypeAI {
		last--
	}
	c.Shortened = t.shortenResults(last, min(shortResult, t.conv.results.most/4), enough)
	c.Dropped = t.dropTurns(enough)
	last -= before - len(t.messages)
	c.Shortened += t.shortenResults(last, 0, enough)
	for limit := t.conv.results.most / 2; limit >= leastResult && !enough(); limit /= 2 {
		c.Shortened += t.shortenResults(len(t.messages), limit, enough)
	}
	return c
}

// shortenResults shortens results of tools before a message to limit bytes, the oldest first, until it is enough, and returns their
// number.
func (t *turn) shortenResults(before, limit int, enough func() bool) (n int) {
	t.messages = slices.Clone(t.messages)
	for i := range t.messages[:before] {
		for j, p := range t.messages[i].Parts {
			r, ok := p.(llms.ToolCallResponse)
			if !ok {
				continue
			}
			short := t.conv.results.shortened(r.Content, limit)
			if short == r.Content {
				continue
			}
			if enough() {
				return n
			}
			r.Content = short
			t.messages[i].Parts = slices.Clone(t.messages[i].Parts)
			t.messages[i].Parts[j] = r
			id := t.conv.results.ids[short]
			t.messages[i].sent = []plugins.PromptMessage{sentResult(id, short, t.conv.results.whole[id])}
			n++
		}
	}
	return n
}

// dropTurns drops the oldest turns until it is enough, except the last one, and returns their number.
func (t *turn) dropTurns(enough func() bool) (n int) {
	for len(t.turns) > 1 && !enough() {
		begin, end := t.turns[0], t.turns[1]
		n++
		t.dropped = plugins.PromptChange{
			Kind: plugins.PromptDropped, Of: lastID(t.messages[begin:end]), Why: fmt.Sprintf("%d turns up to this message do not fit into the model's context", n),
		}
		t.messages = slices.Concat(t.messages[:begin], t.messages[end:])
		t.turns, t.thread = t.turns[1:], t.thread[1:]
		for i := range t.turns {
			t.turns[i] -= end - begin
		}
	}
	return n
}

// lastID returns the id of the last message of the log.
func lastID(list []message) string {
	for _, m := range slices.Backward(list) {
		for _, s := range slices.Backward(m.sent) {
			if s.ID != "" {
				return s.ID
			}
		}
	}
	return ""
}

// contexts are the contexts of models in tokens, by the beginnings of their names. The provider's refusal shows those of others.
var contexts = []struct {
	prefix string
	tokens int
}{
	{"gpt-5", 400_000},
	{"gpt-4.1", 1_000_000},
	{"gpt-4o", 128_000},
	{"gpt-4-turbo", 128_000},
	{"gpt-4", 8_192},
	{"gpt-3.5", 16_385},
	{"o1", 200_000},
	{"o3", 200_000},
	{"o4", 200_000},
	{"claude-", 200_000},
	{"gemini-", 1_000_000},
	{"deepseek-", 128_000},
	{"kimi-", 256_000},
	{"mistral-", 128_000},
	{"magistral-", 128_000},
	{"codestral-", 256_000},
}

// contextOf returns the context of a known model, or 0.
func contextOf(model string) int {
	for _, c := range contexts {
		if strings.HasPrefix(model, c.prefix) {
			return c.tokens
		}
	}
	return 0
}
