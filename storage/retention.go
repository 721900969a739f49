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

	// A segment may hold events of other runs, too: each event counts alike.
	selectSizedSpans = `
SELECT s.run_key, s.n, s.thread_key, s.first_event_id, s.last_event_id, t.last_seq,
	(SELECT count(*)` + rowsOfSpan + `),
	(SELECT COALESCE(sum(octet_length(e.payload)), 0)` + rowsOfSpan + `),
	(SELECT count(*)` + segmentsOfSpan + ` AND (g.first_event_id < s.first_event_id OR g.last_event_id > s.last_event_id)),
	(SELECT COALESCE(sum(octet_length(g.data) * (
		CASE WHEN g.last_event_id < s.last_event_id THEN g.last_event_id ELSE s.last_event_id END
		- CASE WHEN g.first_event_id > s.first_event_id THEN g.first_event_id ELSE s.first_event_id END + 1
		) / (g.last_event_id - g.first_event_id + 1)), 0)` + segmentsOfSpan + `)
FROM run_spans s JOIN threads t ON t.key = s.thread_key
WHERE s.run_key = ANY (?) LIMIT ?`

	rowsOfSpan = `
	FROM events e WHERE e.thread_key = s.thread_key AND e.last_event_id >= s.first_event_id AND e.last_event_id <= s.last_event_id
		AND e.run_key = s.run_key`

	segmentsOfSpan = `
	FROM event_segments g WHERE g.thread_key = s.thread_key AND g.last_event_id >= s.first_event_id AND g.first_event_id <= s.last_event_id`
)

// retention removes old data.
type retention struct {
	*writer
	read *pool
}

var _ model.Retainer = (*DB)(nil)

// Projects implements [model.Retainer]. It steps from one to the next in three indexes, each in its own order.
func (r retention) Projects(ctx context.Context) (projects []string, err error) {
	for _, query := range []string{nextProjectOfRuns, nextProjectOfAttachments, nextProjectOfAudit} {
		for last := ""; ; {
			last, err = one(ctx, r.read, scalar[string], query, last)
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
func (r retention) EndedRuns(ctx context.Context, project string, before time.Time, after model.EndedRun, limit int) ([]model.EndedRun, error) {
	return all(ctx, r.read, func(rows *sql.Rows) (e model.EndedRun, err error) {
		err = rows.Scan(&e.Key, &e.Thread, timeInto{&e.CreatedAt}, timePtrInto{&e.FinishedAt}, &e.Events)
		return e, err
	}, selectEndedRuns, ms(before), project, ms(before), ms(after.CreatedAt), after.Key, limit)
}

// EventsOf implements [model.Retainer].
func (r retention) EventsOf(ctx context.Context, runKeys []int64) (map[int64]model.EventsSize, error) {
	spans, err := all(ctx, r.read, scanSizedSpan, selectSizedSpans, r.d.list(runKeys), maxCount)
	sizes := make(map[int64]model.EventsSize)
	for _, s := range spans {
		size := sizes[s.RunKey]
		size.Events += int(max(s.Last-s.First+1, 0))
		size.Bytes += s.plain + s.sealed
		sizes[s.RunKey] = size
	}
	return sizes, err
}
