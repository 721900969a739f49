package storage

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const memoColumns = `run_key, generation, step, place, tool, agent, hash, call_id, begun, done, output, event`

const (
	upsertMemo = `
INSERT INTO memos (` + memoColumns + `)
VALUES (?::bigint, ?::bigint, ?::bigint, ?::text, ?::text, ?::text, ?::text, ?::text, ?::boolean, ?::boolean, ?::text, ?::bigint)
ON CONFLICT (run_key, generation, step, place) DO UPDATE SET
	tool = excluded.tool, agent = excluded.agent, hash = excluded.hash, call_id = excluded.call_id,
	begun = excluded.begun, done = excluded.done, output = excluded.output, event = excluded.event`

	selectMemos = `
SELECT ` + memoColumns + ` FROM memos WHERE run_key = ? AND generation = ?
ORDER BY step, place LIMIT ?`

	completeMemo = `
UPDATE memos SET done = TRUE, output = ?::text
WHERE run_key = ?::bigint AND generation = ?::bigint AND step = ?::bigint AND place = ?::text`
)

// maxMemos limits the records of one generation of a run.
const maxMemos = 1_000_000

func memoCells(m *data.Memo) []any {
	return []any{
		m.RunKey, m.Generation, m.Step, m.Place, m.Tool, m.Agent, m.Hash, m.CallID, m.Begun, m.Done, sqldb.JSON(m.Output), m.Event,
	}
}

func scanMemo(rows *sql.Rows) (m data.Memo, err error) {
	return sqldb.Scan(rows, &m, &m.RunKey, &m.Generation, &m.Step, &m.Place, &m.Tool, &m.Agent, &m.Hash, &m.CallID,
		&m.Begun, &m.Done, sqldb.Into(&m.Output), &m.Event)
}

// Memos returns the records of one generation of the run.
func (r keyed) Memos(ctx context.Context, runKey int64, generation int) ([]data.Memo, error) {
	return sqldb.Whole(ctx, r.q, scanMemo, maxMemos, selectMemos, runKey, generation)
}

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
func (r keyed) Interrupts(ctx context.Context, runKey int64) ([]data.Interrupt, error) {
	return sqldb.Whole(ctx, r.q, scanInterrupt, sqldb.MaxCount, selectInterrupts, runKey)
}

// Expired returns up to limit open interrupts that have expired, by expiry.
func (r keyed) Expired(ctx context.Context, now time.Time, limit int) ([]data.Interrupt, error) {
	return sqldb.All(ctx, r.q, scanInterrupt, selectExpired, sqldb.Time(now), limit)
}

const keyColumns = `scope, body_hash, run_key, answer, created_at`

const (
	// insertKey fails when another instance has remembered an equal request meanwhile: see guards.
	insertKey = `
INSERT INTO idempotency_keys (` + keyColumns + `)
VALUES (?::text, ?::text, ?::bigint, ?::text, ?::timestamptz)`

	deleteKeys = `
DELETE FROM idempotency_keys WHERE scope = ANY (?)`

	selectRemembered = `
SELECT k.scope, k.body_hash, k.run_key, r.key IS NULL AND k.run_key <> 0, k.answer, k.created_at
FROM idempotency_keys k LEFT JOIN runs r ON r.key = k.run_key
WHERE k.scope = ANY (?)`
)

// writeKeys writes the pending Idempotency-Keys, after it has removed the expired ones that they replace.
func (tx *commitTx) writeKeys() error {
	var expired []string
	for i := range tx.pending.keys.rows {
		if k := &tx.pending.keys.rows[i]; k.Replaces {
			expired = append(expired, k.Scope)
		}
	}
	if len(expired) > 0 {
		if err := tx.Exec(deleteKeys, tx.DB.List(expired)); err != nil {
			return err
		}
	}
	sqldb.Write(tx.Tx, tx.pending.keys.rows, insertKey, keyCells)
	return tx.Err()
}

func keyCells(k *data.IdempotencyKey) []any {
	return []any{k.Scope, k.BodyHash, k.RunKey, sqldb.JSON(k.Answer), sqldb.Time(k.CreatedAt)}
}

// remembered is the row of an Idempotency-Key.
type remembered struct {
	scope string
	data.Remembered
}

func scanRemembered(rows *sql.Rows) (r remembered, err error) {
	return sqldb.Scan(rows, &r, &r.scope, &r.BodyHash, &r.RunKey, &r.RunGone, sqldb.Into(&r.Answer), sqldb.Into(&r.CreatedAt))
}
