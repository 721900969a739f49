package baton

import (
	"context"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

// tidyEvery is the period of the janitor. Tests change it, also with the linker: -X github.com/batonrun/baton.tidyEvery=20ms.
var tidyEvery = "5m"

// tidy is the janitor. Every few seconds it records run statistics; every few minutes it compresses old events and removes
// expired data. It returns when ctx ends.
func tidy(ctx context.Context, every time.Duration, rt *runtime.Runtime, db *storage.DB, policy runtime.Policy, log *slog.Logger) {
	var retired time.Time
	var wait clockGuard
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
				continue // the active server does it
			}
			if err := rt.RollUp(ctx, now); err != nil && ctx.Err() == nil {
				log.Warn("failed to record run statistics", "error", err)
			}
		case now := <-tick.C:
			if by, ok := wait.pass(now.Round(0).Sub(last.Round(0)), now.Sub(last)); ok {
				log.Warn("the clock was changed; nothing expires within the next hour", "by", by.Round(time.Second).String())
			}
			last = now
			if rt.Serves() != nil {
				continue // the active server does it
			}
			if wait.left == 0 && now.Sub(retired) >= every*retireEvery {
				retire(ctx, rt, db, policy, now, log)
				retired = now
			}
			n, err := db.Seal(ctx, now)
			if err != nil && ctx.Err() == nil {
				log.Warn("failed to compress old events", "error", err)
			} else if n > 0 {
				log.Debug("compressed old events", "events", n)
			}
			if wait.left > 0 {
				continue
			}
			if err := db.ForgetKeys(ctx, now.Add(-runtime.KeyLifetime)); err != nil && ctx.Err() == nil {
				log.Warn("failed to remove old idempotency keys", "error", err)
			}
			if err := rt.CollectAttachments(ctx); err != nil && ctx.Err() == nil {
				log.Warn("failed to remove unused attachments", "error", err)
			}
			if err := db.Prune(ctx, now); err != nil && ctx.Err() == nil {
				log.Warn("failed to remove old records", "error", err)
			}
		}
	}
}

// countEvery is the period of run statistics. Queries add the runs since then.
const countEvery = 10 * time.Second

// clockGuard is how long nothing expires, because the clock was changed by an hour or more: a clock that is years ahead for a
// moment must not remove all data, and an operator has time to correct it.
type clockGuard struct{ left time.Duration }

// pass adds the time that the wall clock and the monotonic clock measured, and reports by how much the wall clock was changed, if
// by an hour or more.
func (p *clockGuard) pass(wall, passed time.Duration) (by time.Duration, set bool) {
	if by = wall - passed; by.Abs() >= time.Hour {
		p.left = time.Hour
		return by, true
	}
	p.left = max(0, p.left-passed)
	return by, false
}

// retireEvery is the number of periods between two runs of the retention: an hour.
const retireEvery = 12

// retire applies the retention policy, before unused attachments are removed and the file shrinks.
func retire(ctx context.Context, rt *runtime.Runtime, db *storage.DB, policy runtime.Policy, now time.Time, log *slog.Logger) {
	list, err := rt.Retire(ctx, db, policy, now)
	for i := range list {
		r := &list[i]
		log.Info("removed expired data", "project", r.Project, "runs", r.Runs, "stripped", r.Stripped,
			"events", r.Events, "attachments", r.Attachments, "audit", r.Audit)
	}
	if err != nil && ctx.Err() == nil {
		log.Warn("failed to remove expired data", "error", err)
	}
}
