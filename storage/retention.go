package storage

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/model"
)

const (
	nextProjectOfRuns = `
SELECT project_id FROM runs WHERE project_id > ? ORDER BY project_id LIMIT 1`

	nextProjectOfAttachments = `
SELECT project_id FROM attachments WHERE project_id > ? ORDER BY project_id LIMIT 1`

	nextProjectOfAudit = `
SELECT project_id FROM audit WHERE project_id > ? ORDER BY project_id LIMIT 1`

	// selectEndedRuns reads the oldest runs of a project, those that have ended and those that have not. What has ended before
	// a time came before it.
	selectEndedRuns = `
SELECT key, thread_key, created_at,
	CASE WHEN finished_at < ? AND status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN finished_at END,
	EXISTS (SELECT 1 FROM run_spans s WHERE s.run_key = runs.key)
FROM runs
WHERE project_id = ? AND created_at < ? AND (created_at, key) > (?, ?)
ORDER BY created_at, key LIMIT ?`

	selectSpansOfRun = `
SELECT thread_key, first_event_id, last_event_id FROM run_spans WHERE run_key = ? ORDER BY n LIMIT ?`

	sizeOfRows = `
SELECT COALESCE(sum(octet_length(payload)), 0) FROM events
WHERE thread_key = ? AND last_event_id >= ? AND last_event_id <= ? AND run_key = ?`

	// A segment may hold events of other runs, too: each event counts alike.
	sizeOfSegments = `
SELECT COALESCE(sum(octet_length(data) * (
	CASE WHEN last_event_id < ? THEN last_event_id ELSE ? END - CASE WHEN first_event_id > ? THEN first_event_id ELSE ? END + 1
	) / (last_event_id - first_event_id + 1)), 0)
FROM event_segments WHERE thread_key = ? AND last_event_id >= ? AND first_event_id <= ?`
)

var _ model.Retainer = (*DB)(nil)

// Projects implements [model.Retainer]. It steps from one to the next in three indexes, each in its own order.
func (db *DB) Projects(ctx context.Context) (projects []string, err error) {
	for _, query := range []string{nextProjectOfRuns, nextProjectOfAttachments, nextProjectOfAudit} {
		for last := ""; ; {
			last, err = one(ctx, db.read, scalar[string], query, last)
			if errors.Is(err, model.ErrNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			projects = append(projects, last)
		}
	}
	slices.Sort(projects)
	return slices.Compact(projects), nil
}

// EndedRuns implements [model.Retainer].
func (db *DB) EndedRuns(ctx context.Context, project string, before time.Time, after model.EndedRun, limit int) ([]model.EndedRun, error) {
	return all(ctx, db.read, func(rows *sql.Rows) (r model.EndedRun, err error) {
		err = rows.Scan(&r.Key, &r.Thread, timeInto{&r.CreatedAt}, timePtrInto{&r.FinishedAt}, &r.Events)
		return r, err
	}, selectEndedRuns, ms(before), project, ms(before), ms(after.CreatedAt), after.Key, limit)
}

// EventsOf implements [model.Retainer].
func (db *DB) EventsOf(ctx context.Context, runKey int64) (n int, size int64, err error) {
	spans, err := all(ctx, db.read, func(rows *sql.Rows) (s model.Span, err error) {
		err = rows.Scan(&s.ThreadKey, &s.First, &s.Last)
		return s, err
	}, selectSpansOfRun, runKey, maxCount)
	for _, s := range spans {
		n += int(max(s.Last-s.First+1, 0))
		plain, rowsErr := one(ctx, db.read, scalar[int64], sizeOfRows, s.ThreadKey, s.First, s.Last, runKey)
		sealed, segmentsErr := one(ctx, db.read, scalar[int64], sizeOfSegments,
			s.Last, s.Last, s.First, s.First, s.ThreadKey, s.First, s.Last)
		size += plain + sealed
		err = errors.Join(err, rowsErr, segmentsErr)
	}
	return n, size, err
}
