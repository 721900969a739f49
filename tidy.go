package baton

import (
	"context"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

// tidyEvery is how often the janitor tidies. Tests have it set, also by the linker: -X github.com/batonrun/baton.tidyEvery=20ms.
var tidyEvery = "5m"

// tidy is the janitor: every few seconds it counts what runs came to, and every few minutes it has old events sealed, and forgets
// what nobody needs any more.
// It returns when ctx ends.
func tidy(ctx context.Context, every time.Duration, rt *runtime.Runtime, db *storage.DB, policy runtime.Policy, log *slog.Logger) {
	var retired time.Time
	var wait patience
	last := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	count := time.NewTicker(countEvery)
	defer count.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-count.C:
			if rt.Serves() != nil {
				continue // another server does it
			}
			if err := rt.RollUp(ctx, now); err != nil && ctx.Err() == nil {
				log.Warn("what runs came to was not counted", "error", err)
			}
		case now := <-tick.C:
			if by, ok := wait.pass(now.Round(0).Sub(last.Round(0)), now.Sub(last)); ok {
				log.Warn("the clock was set; what is kept for a time is looked at in an hour, and not before", "by", by.Round(time.Second).String())
			}
			last = now
			if rt.Serves() != nil {
				continue // another server does it
			}
			if wait.left == 0 && now.Sub(retired) >= every*retireEvery {
				retire(ctx, rt, db, policy, now, log)
				retired = now
			}
			n, err := db.Seal(ctx, now)
			if err != nil && ctx.Err() == nil {
				log.Warn("old events were not sealed", "error", err)
			} else if n > 0 {
				log.Debug("sealed old events", "events", n)
			}
			if wait.left > 0 {
				continue
			}
			if err := db.ForgetKeys(ctx, now.Add(-runtime.KeyLifetime)); err != nil && ctx.Err() == nil {
				log.Warn("old idempotency keys were not forgotten", "error", err)
			}
			if err := rt.CollectAttachments(ctx); err != nil && ctx.Err() == nil {
				log.Warn("attachments of no use were not removed", "error", err)
			}
			if err := db.Prune(ctx, now); err != nil && ctx.Err() == nil {
				log.Warn("old records were not removed", "error", err)
			}
		}
	}
}

// countEvery is how often is counted what runs came to. Who asks looks at the rest.
const countEvery = 10 * time.Second

// patience is how long nothing is removed that is kept for a time, because the clock was set by much: one that is years ahead for a
// moment must not have all of it go, and somebody has time to set it back.
type patience struct{ left time.Duration }

// pass notes that so much time went by on the wall and passed in truth, and reports by how much the clock was set, if by much.
func (p *patience) pass(wall, passed time.Duration) (by time.Duration, set bool) {
	if by = wall - passed; by.Abs() >= time.Hour {
		p.left = time.Hour
		return by, true
	}
	p.left = max(0, p.left-passed)
	return by, false
}

// retireEvery is after how many times is looked again for what has been kept long enough: after an hour.
const retireEvery = 12

// retire removes what has been kept long enough, before attachments are collected and the file shrinks.
func retire(ctx context.Context, rt *runtime.Runtime, db *storage.DB, policy runtime.Policy, now time.Time, log *slog.Logger) {
	list, err := rt.Retire(ctx, db, policy, now)
	for i := range list {
		r := &list[i]
		log.Info("removed what was kept long enough", "project", r.Project, "runs", r.Runs, "stripped", r.Stripped,
			"events", r.Events, "attachments", r.Attachments, "audit", r.Audit)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("what was kept long enough was not removed", "error", err)
	}
}
