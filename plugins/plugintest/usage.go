package plugintest

import (
	"cmp"
	"context"

	"github.com/batonrun/baton/runtime/agui"
)

// spent are the tokens that were reported inside of a Do. They are counted with its record.
type spent struct {
	h    *host
	list []agui.TokenUsage // guarded by h.s.mu
}

type spentKey struct{}

func (h *host) Usage(ctx context.Context, u agui.TokenUsage) error {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	if err := cmp.Or(context.Cause(ctx), h.over()); err != nil {
		return err
	}
	if do, ok := ctx.Value(spentKey{}).(*spent); ok && do.h == h {
		do.list = append(do.list, u)
		return nil
	}
	h.uses["Usage"]++
	use := use{scope: h.scope, name: "Usage", n: h.uses["Usage"]}
	if h.s.records[use] != nil {
		return nil
	}
	h.s.usage = agui.AddUsage(h.s.usage, u)
	return h.s.keep(use, encode(u))
}

// count counts what was reported inside of a Do, unless the process has died meanwhile.
func (u *spent) count() {
	u.h.s.mu.Lock()
	defer u.h.s.mu.Unlock()
	if u.h.over() != nil {
		return
	}
	for _, t := range u.list {
		u.h.s.usage = agui.AddUsage(u.h.s.usage, t)
	}
	u.list = nil
}
