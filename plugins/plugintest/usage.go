package plugintest

import (
	"context"
	"encoding/json"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

func (h *host) Usage(ctx context.Context, u plugins.Use, c plugins.ModelCall) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil || rec.done {
		return err
	}
	err = h.keep(rec, encode(c.Usage), len(h.s.events))
	if rec.done { // also when the process dies right after it
		h.s.usage = agui.AddUsage(h.s.usage, c.Usage)
		if ctx.Value(doingKey{h}) == nil {
			h.s.once = agui.AddUsage(h.s.once, c.Usage)
		}
		if c.FinishReason != "" {
			h.s.lastCall = c
		}
	}
	return err
}

func (h *host) Spent(u plugins.Use) (sum []agui.TokenUsage) {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	for place, rec := range h.s.records {
		var spent agui.TokenUsage
		if rec.done && u.Counts(place) && json.Unmarshal(rec.output, &spent) == nil {
			sum = agui.AddUsage(sum, spent)
		}
	}
	return sum
}

// metadata returns the metadata of a span's end, from the last model call with a known FinishReason.
func (s *session) metadata() agui.Base {
	last := &s.lastCall
	if last.FinishReason == "" {
		return agui.Base{}
	}
	f := agui.FinishMetadata{
		Provider: last.Usage.Provider, Model: last.Usage.Model, FinishReason: last.FinishReason, ProviderRequestID: last.RequestID,
	}
	for _, u := range s.usage {
		f.InputTokens += u.InputTokens
		f.OutputTokens += u.OutputTokens
		f.CachedInputTokens += u.CachedInputTokens
		f.ReasoningTokens += u.ReasoningTokens
	}
	return agui.Base{Metadata: f.JSON()}
}
