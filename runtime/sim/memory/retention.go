package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

var _ data.Retainer = (*Store)(nil)

// Projects implements [data.Retainer].
func (db *Database) Projects(ctx context.Context) ([]string, error) {
	return read(ctx, db, func() []string {
		projects := make(map[string]bool)
		for _, r := range db.runs {
			projects[r.Project] = true
		}
		return slices.Sorted(maps.Keys(projects))
	})
}

// EndedRuns implements [data.Retainer].
func (db *Database) EndedRuns(ctx context.Context, project string, before time.Time, after data.EndedRun, limit int) ([]data.EndedRun, error) {
	return read(ctx, db, func() (list []data.EndedRun) {
		for _, r := range db.runs {
			if r.Project != project || !r.CreatedAt.Before(before) || cmp.Or(r.CreatedAt.Compare(after.CreatedAt), cmp.Compare(r.Key, after.Key)) <= 0 {
				continue
			}
			e := data.EndedRun{Key: r.Key, Thread: r.ThreadKey, CreatedAt: r.CreatedAt}
			if r.Status.Final() && r.FinishedAt != nil && r.FinishedAt.Before(before) {
				e.FinishedAt = new(*r.FinishedAt)
			}
			for key := range db.spans[r.ThreadKey] {
				e.Events = e.Events || key.run == r.Key
			}
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b data.EndedRun) int {
			return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Key, b.Key))
		})
		return head(list, limit)
	})
}

// EventsOf implements [data.Retainer].
func (db *Database) EventsOf(ctx context.Context, runKeys []int64) (map[int64]data.EventsSize, error) {
	return read(ctx, db, func() map[int64]data.EventsSize {
		sizes := make(map[int64]data.EventsSize)
		for _, log := range db.events {
			for i := range log {
				if key := log[i].RunKey; slices.Contains(runKeys, key) {
					size := sizes[key]
					sizes[key] = data.EventsSize{Events: size.Events + 1, Bytes: size.Bytes + int64(len(log[i].Payload))}
				}
			}
		}
		return sizes
	})
}

// ForgetAudit implements [data.Retainer] and deletes nothing.
func (db *Database) ForgetAudit(ctx context.Context, _ string, _ time.Time, _ bool) (int, error) {
	return 0, ctx.Err()
}

// ExpireAttachments implements [data.Retainer]. There are no attachments.
func (db *Database) ExpireAttachments(ctx context.Context, _, _ string, _ time.Time, _ bool) (int, error) {
	return 0, ctx.Err()
}
