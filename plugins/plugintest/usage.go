package plugintest

import (
	"context"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

func (h *host) Usage(ctx context.Context, u plugins.Use, t agui.TokenUsage) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	rec, err := h.recall(ctx, u)
	if err != nil || rec.done {
		return err
	}
	err = h.keep(rec, encode(t), len(h.s.events))
	if rec.done { // also when the process dies right after it
		h.s.usage = agui.AddUsage(h.s.usage, t)
	}
	return err
}
