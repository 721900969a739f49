package storage

import (
	"context"

	"github.com/batonrun/baton/runtime/data"
)

const (
	upsertPlace = `
INSERT INTO queue (thread_key, todo, run_key, project_id, user_id, agent, rank, since)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::text, ?::text, ?::text, ?::bigint, ?::timestamptz)
ON CONFLICT (thread_key) DO UPDATE SET todo = excluded.todo, run_key = excluded.run_key, project_id = excluded.project_id,
	user_id = excluded.user_id, agent = excluded.agent, rank = excluded.rank, since = excluded.since`

	deletePlace = `
DELETE FROM queue
WHERE thread_key = ?::bigint`

	// selectMisplaced reads, in one snapshot, the threads whose row in the queue cannot be what their runs need. Rows of decisions about
	// runs are written together with the runs.
	selectMisplaced = `
SELECT thread_key FROM (
	SELECT r.thread_key FROM runs r
	WHERE r.status = 'QUEUED' AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.thread_key = r.thread_key) AND NOT EXISTS (
		SELECT 1 FROM runs o WHERE o.thread_key = r.thread_key AND o.status IN ('RUNNING', 'WAITING'))
	UNION
	SELECT q.thread_key FROM queue q
	LEFT JOIN runs r ON r.key = q.run_key AND r.thread_key = q.thread_key AND r.status IN ('QUEUED', 'RUNNING', 'WAITING')
	WHERE r.key IS NULL OR q.todo = 2 AND r.status <> 'QUEUED'
) AS misplaced ORDER BY thread_key LIMIT ?`
)

func leftCells(p *data.Place) []any { return []any{p.ThreadKey} }

func placeCells(p *data.Place) []any {
	rank := 2
	if p.Answered {
		rank = 1
	}
	return []any{p.ThreadKey, int(p.Todo), p.RunKey, p.Project, p.User, p.Agent, rank, ms(p.Since)}
}

// Misplaced returns up to limit threads whose rows in the queue do not agree with their runs: see [data.ByKey].
func (r keyed) Misplaced(ctx context.Context, limit int) ([]int64, error) {
	return all(ctx, r.q, scalar[int64], selectMisplaced, limit)
}
