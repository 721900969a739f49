package baton

import (
	"context"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

// auditKept is how long is known who has asked for what.
const auditKept = 90 * 24 * time.Hour

// tidy is the janitor: every few minutes it has old events sealed, and forgets what nobody needs any more.
// It returns when ctx ends.
func tidy(ctx context.Context, rt *runtime.Runtime, db *storage.DB, log *slog.Logger) {
	const every = 5 * time.Minute
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if rt.Serves() != nil {
				continue // another server does it
			}
			n, err := db.Seal(ctx, now)
			if err != nil && ctx.Err() == nil {
				log.Warn("old events were not sealed", "error", err)
			} else if n > 0 {
				log.Debug("sealed old events", "events", n)
			}
			if err := db.ForgetKeys(ctx, now.Add(-runtime.KeyLifetime)); err != nil && ctx.Err() == nil {
				log.Warn("old idempotency keys were not forgotten", "error", err)
			}
			if err := rt.CollectAttachments(ctx); err != nil && ctx.Err() == nil {
				log.Warn("attachments of no use were not removed", "error", err)
			}
			if err := db.ForgetAudit(ctx, now.Add(-auditKept)); err != nil && ctx.Err() == nil {
				log.Warn("the old audit was not removed", "error", err)
			}
			if err := db.Prune(ctx, now); err != nil && ctx.Err() == nil {
				log.Warn("old records were not removed", "error", err)
			}
		}
	}
}
