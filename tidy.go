package baton

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
)

// tidyEvery is the period of the janitor's duties. Tests change it, also with the linker: -X github.com/batonrun/baton.tidyEvery=20ms.
var tidyEvery = "5m"

const (
	countEvery  = 10 * time.Second // the period of run statistics; queries add the runs since then
	retireEvery = 12               // periods between two runs of the retention: an hour
	turnLasts   = time.Second      // how long a duty works until the next one has its turn
	takeEvery   = 3 * time.Second  // how often a server of a cluster tries to take the duties of one that has ended
)

// tidy gives the duties of the janitor their turns until ctx ends.
func tidy(ctx context.Context, every time.Duration, rt *runtime.Runtime, db *storage.DB, policy retention.Policy, log *slog.Logger) {
	last, retry := time.Now(), every
	if db.Shared() {
		retry = min(every, takeEvery)
	}
	var guard clockGuard
	j := janitor.New(janitor.Config{
		Duties: duties(every, rt, db, policy, &guard, log), Begin: last, Retry: retry, Slice: turnLasts, Behind: every * retireEvery, Log: log,
	})
	defer j.Stop()
	for {
		now := time.Now()
		if by, ok := guard.pass(now.Round(0).Sub(last.Round(0)), now.Sub(last)); ok {
			log.Warn("the clock was changed; nothing expires within the next hour", "by", by.Round(time.Second).String())
		}
		last = now
		wait := time.NewTimer(j.Turn(ctx, now))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// duties returns the janitor's duties. Data expires before unused attachments are removed and the file shrinks.
func duties(every time.Duration, rt *runtime.Runtime, db *storage.DB, policy retention.Policy, guard *clockGuard, log *slog.Logger) []janitor.Duty {
	active := func(do func(context.Context, time.Time) error) func(context.Context, time.Time) error {
		return func(ctx context.Context, now time.Time) error {
			if rt.Member.Serves() != nil {
				return janitor.ErrNotNow // the active server does it
			}
			if mine, err := db.Members().TakeDuty(ctx, janitor.Name(ctx)); err != nil || !mine {
				return cmp.Or(err, janitor.ErrNotNow)
			}
			return do(ctx, now)
		}
	}
	expiring := func(do func(context.Context, time.Time) error) func(context.Context, time.Time) error {
		do = active(do)
		return func(ctx context.Context, now time.Time) error {
			if guard.left > 0 {
				return janitor.ErrNotNow
			}
			return do(ctx, now)
		}
	}
	return []janitor.Duty{
		{Name: "retention", Every: every * retireEvery, Do: expiring(func(ctx context.Context, now time.Time) error {
			return retire(ctx, rt, db, policy, now, log)
		})},
		{Name: "compression of events", Every: every, Do: active(func(ctx context.Context, now time.Time) error {
			n, err := db.Retention.Seal(ctx, now)
			if err == nil && n > 0 {
				log.Debug("compressed old events", "events", n)
			}
			return err
		})},
		{Name: "run statistics", Every: countEvery, Do: active(rt.RollUp)},
		{Name: "queue", Every: every, Do: active(func(ctx context.Context, _ time.Time) error { return rt.RepairQueue(ctx) })},
		{Name: "idempotency keys", Every: every, Do: expiring(func(ctx context.Context, now time.Time) error {
			return db.Retention.ForgetKeys(ctx, now.Add(-runtime.KeyLifetime))
		})},
		{Name: "unused attachments", Every: every, Do: expiring(func(ctx context.Context, _ time.Time) error {
			return rt.Uploads.Collect(ctx)
		})},
		{Name: "old records", Every: every, Do: expiring(db.Retention.Prune)},
	}
}

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

// retire applies the retention policy.
func retire(ctx context.Context, rt *runtime.Runtime, db *storage.DB, policy retention.Policy, now time.Time, log *slog.Logger) error {
	list, err := rt.Retire(ctx, db.Retention, policy, now)
	for i := range list {
		r := &list[i]
		log.Info("removed expired data", "project", r.Project, "runs", r.Runs, "stripped", r.Stripped,
			"events", r.Events, "attachments", r.Attachments, "audit", r.Audit)
	}
	return err
}
