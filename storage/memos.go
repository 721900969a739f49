package storage

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime"
)

const memoColumns = `run_key, generation, step, name, n, call_id, done, output`

const (
	upsertMemo = `
INSERT INTO memos (` + memoColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_key, generation, step, name, n) DO UPDATE SET
	call_id = excluded.call_id, done = excluded.done, output = excluded.output`

	selectMemos = `
SELECT ` + memoColumns + ` FROM memos WHERE run_key = ? AND generation = ?
ORDER BY step, name, n LIMIT 100000`
)

func memoArgs(m *runtime.Memo) []any {
	return []any{m.RunKey, m.Generation, m.Step, m.Name, m.N, m.CallID, m.Done, raw(m.Output)}
}

func scanMemo(rows *sql.Rows) (m runtime.Memo, err error) {
	err = rows.Scan(&m.RunKey, &m.Generation, &m.Step, &m.Name, &m.N, &m.CallID, &m.Done, rawInto{&m.Output})
	return m, err
}

// Memos returns the records of one generation of the run.
func (r reader) Memos(ctx context.Context, runKey int64, generation int) ([]runtime.Memo, error) {
	return all(ctx, r.q, scanMemo, selectMemos, runKey, generation)
}

const interruptColumns = `run_key, interrupt_id, step, name, n, frontend, body, status, payload, expires_at,
	created_at`

const (
	upsertInterrupt = `
INSERT INTO interrupts (` + interruptColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_key, interrupt_id) DO UPDATE SET
	step = excluded.step, name = excluded.name, n = excluded.n, frontend = excluded.frontend,
	body = excluded.body, status = excluded.status, payload = excluded.payload,
	expires_at = excluded.expires_at, created_at = excluded.created_at`

	selectInterrupts = `
SELECT ` + interruptColumns + ` FROM interrupts WHERE run_key = ? ORDER BY created_at, key LIMIT 10000`

	selectExpired = `
SELECT ` + interruptColumns + ` FROM interrupts WHERE status = 'open' AND expires_at <= ?
ORDER BY expires_at LIMIT ?`
)

func interruptArgs(i *runtime.Interrupt) []any {
	return []any{
		i.RunKey, i.ID, i.Step, i.Name, i.N, i.Frontend, raw(i.Body), i.Status, raw(i.Payload),
		msOrNull(i.ExpiresAt), ms(i.CreatedAt),
	}
}

func scanInterrupt(rows *sql.Rows) (i runtime.Interrupt, err error) {
	err = rows.Scan(&i.RunKey, &i.ID, &i.Step, &i.Name, &i.N, &i.Frontend, rawInto{&i.Body}, &i.Status,
		rawInto{&i.Payload}, timePtrInto{&i.ExpiresAt}, timeInto{&i.CreatedAt})
	return i, err
}

// Interrupts returns what the run waits or waited for, oldest first.
func (r reader) Interrupts(ctx context.Context, runKey int64) ([]runtime.Interrupt, error) {
	return all(ctx, r.q, scanInterrupt, selectInterrupts, runKey)
}

// Expired returns up to limit open interrupts that have expired by now, those first that expired first.
func (r reader) Expired(ctx context.Context, now time.Time, limit int) ([]runtime.Interrupt, error) {
	return all(ctx, r.q, scanInterrupt, selectExpired, ms(now), limit)
}

const keyColumns = `scope, body_hash, run_key, status, answer, created_at`

const (
	upsertKey = `
INSERT INTO idempotency_keys (` + keyColumns + `)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope) DO UPDATE SET
	body_hash = excluded.body_hash, run_key = excluded.run_key, status = excluded.status,
	answer = excluded.answer, created_at = excluded.created_at`

	selectKey = `
SELECT ` + keyColumns + ` FROM idempotency_keys WHERE scope = ?`
)

func keyArgs(k *runtime.IdempotencyKey) []any {
	return []any{k.Scope, k.BodyHash, k.RunKey, k.Status, raw(k.Answer), ms(k.CreatedAt)}
}

func scanKey(rows *sql.Rows) (k runtime.IdempotencyKey, err error) {
	err = rows.Scan(&k.Scope, &k.BodyHash, &k.RunKey, &k.Status, rawInto{&k.Answer}, timeInto{&k.CreatedAt})
	return k, err
}

// IdempotencyKey returns what is remembered under the scope, however old it is.
func (r reader) IdempotencyKey(ctx context.Context, scope string) (runtime.IdempotencyKey, error) {
	return one(ctx, r.q, scanKey, selectKey, scope)
}
