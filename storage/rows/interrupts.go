package rows

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const interruptColumns = `run_key, interrupt_id, step, place, frontend, tool, body, status, payload, expires_at,
	created_at`

const (
	upsertInterrupt = `
INSERT INTO interrupts (` + interruptColumns + `, project_id, user_id)
VALUES (?::bigint, ?::text, ?::bigint, ?::text, ?::boolean, ?::text, ?::text, ?::text, ?::text, ?::timestamptz,
	?::timestamptz, COALESCE((SELECT project_id FROM runs WHERE key = ?::bigint), ''),
	COALESCE((SELECT user_id FROM runs WHERE key = ?::bigint), ''))
ON CONFLICT (run_key, interrupt_id) DO UPDATE SET
	step = excluded.step, place = excluded.place, frontend = excluded.frontend, tool = excluded.tool,
	body = excluded.body, status = excluded.status, payload = excluded.payload,
	expires_at = excluded.expires_at, created_at = excluded.created_at`

	answerInterrupt = `
UPDATE interrupts SET status = 'answered', payload = ?::text
WHERE run_key = ?::bigint AND interrupt_id = ?::text`

	withdrawInterrupts = `
UPDATE interrupts SET status = CASE status WHEN 'open' THEN 'cancelled' ELSE 'resolved' END
WHERE run_key = ?::bigint AND status IN ('open', 'answered')`

	askedColumns = `r.thread_key, i.run_key, i.interrupt_id, i.step, i.place, i.frontend, i.status,
	i.status IN ('answered', 'resolved') AND i.payload IS NULL, i.created_at, i.key`

	selectAskedOfRuns = `
SELECT ` + askedColumns + ` FROM interrupts i JOIN runs r ON r.key = i.run_key WHERE i.run_key = ANY (?)`

	selectAskedByID = `
SELECT ` + askedColumns + `
FROM ` + unnestIDs + `
CROSS JOIN threads t CROSS JOIN interrupts i CROSS JOIN runs r
WHERE t.key = asked.thread_key AND i.project_id = t.project_id AND i.interrupt_id = asked.id AND r.key = i.run_key`

	selectInterrupts = `
SELECT ` + interruptColumns + ` FROM interrupts WHERE run_key = ? ORDER BY created_at, key LIMIT ?`

	selectExpired = `
SELECT ` + interruptColumns + ` FROM interrupts
WHERE status = 'open' AND expires_at <= ?
ORDER BY expires_at LIMIT ?`
)

func interruptCells(i *data.Interrupt) []any {
	return []any{
		i.RunKey, i.ID, i.Step, i.Place, i.Frontend, i.Tool, sqldb.JSON(i.Body), i.Status, sqldb.JSON(i.Payload),
		sqldb.Time(i.ExpiresAt), sqldb.Time(i.CreatedAt), i.RunKey, i.RunKey,
	}
}

func scanInterrupt(rows *sql.Rows) (i data.Interrupt, err error) {
	return sqldb.Scan(rows, &i, &i.RunKey, &i.ID, &i.Step, &i.Place, &i.Frontend, &i.Tool, sqldb.Into(&i.Body), &i.Status,
		sqldb.Into(&i.Payload), sqldb.Into(&i.ExpiresAt), sqldb.Into(&i.CreatedAt))
}

func answerCells(a *data.Answer) []any { return []any{sqldb.JSON(a.Payload), a.RunKey, a.ID} }

func completionCells(a *data.Answer) []any {
	return []any{sqldb.JSON(a.Output), a.RunKey, a.Generation, a.Step, a.Place}
}

func withdrawnCells(w *data.Withdraw) []any { return []any{w.RunKey} }

// asked is an interrupt of a view with its sort keys.
type asked struct {
	data.Asked
	thread  int64
	created time.Time
	key     int64
}

func scanAsked(rows *sql.Rows) (a asked, err error) {
	return sqldb.Scan(rows, &a, &a.thread, &a.RunKey, &a.ID, &a.Step, &a.Place, &a.Frontend, &a.Status, &a.Expired, sqldb.Into(&a.created), &a.key)
}

// Interrupts returns the run's interrupts, oldest first.
func (r *Reader) Interrupts(ctx context.Context, runKey int64) ([]data.Interrupt, error) {
	return sqldb.Whole(ctx, r.q, scanInterrupt, sqldb.MaxCount, selectInterrupts, runKey)
}

// Expired returns up to limit open interrupts that have expired, by expiry.
func (r *Queue) Expired(ctx context.Context, now time.Time, limit int) ([]data.Interrupt, error) {
	return sqldb.All(ctx, r.q, scanInterrupt, selectExpired, sqldb.Time(now), limit)
}
