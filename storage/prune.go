package storage

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/janitor"
)

// keepAfter is how long the records of a run are kept after its end, for diagnosis.
const keepAfter = 24 * time.Hour

const (
	// selectRecorded finds runs with records that are no longer needed. An index has the runs that have records.
	selectRecorded = `
SELECT recorded.run_key,
	r.generation > recorded.generation OR r.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND r.finished_at < ?
FROM (SELECT run_key, min(generation) AS generation FROM memos WHERE run_key > ? GROUP BY run_key ORDER BY run_key LIMIT 500)
	AS recorded
JOIN runs r ON r.key = recorded.run_key
ORDER BY recorded.run_key`

	sizeRecords = `
SELECT COALESCE(octet_length(m.output), 0)` + uselessRecords

	deleteRecords = `
DELETE FROM memos WHERE (run_key, generation, step, place) IN (
	SELECT m.run_key, m.generation, m.step, m.place` + uselessRecords + `)`

	uselessRecords = ` FROM runs r JOIN memos m ON m.run_key = r.key
	WHERE r.key = ANY (?) AND m.generation <
		r.generation + CASE WHEN r.status IN ('COMPLETED', 'FAILED', 'CANCELLED') AND r.finished_at < ? THEN 1 ELSE 0 END
	LIMIT ?`

	forgetKeys = `
DELETE FROM idempotency_keys WHERE scope IN (
	SELECT scope FROM idempotency_keys WHERE created_at < ? ORDER BY created_at LIMIT ?)`

	deleteInstances = `
DELETE FROM instances WHERE id IN (
	SELECT id FROM instances WHERE fenced AND started_at < ? AND id NOT IN (
		SELECT owner_instance FROM runs WHERE status = 'RUNNING' AND status IN ('QUEUED', 'RUNNING', 'WAITING'))
	LIMIT ?)`
)

// recorded is a run with records.
type recorded struct {
	run  int64
	over bool // some of them are no longer needed
}

func scanRecorded(rows *sql.Rows) (r recorded, err error) {
	err = rows.Scan(&r.run, &r.over)
	return r, err
}

// Prune removes rows that nobody needs: the records (of Do, CallTool, Ask, Next) of earlier generations of a run and of runs that
// ended a day ago, the instances that were fenced, started a day ago or earlier, and own no run, and the API keys that were
// revoked or have expired 90 days ago. It should be called every few minutes, and blocks commits only for moments.
func (r retention) Prune(ctx context.Context, now time.Time) error {
	before := ms(now.Add(-keepAfter))
	for after := int64(0); ; {
		list, err := all(ctx, r.read, scanRecorded, selectRecorded, before, after)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			_, err := r.tidy(ctx, deleteInstances, before)
			return errors.Join(err, r.forgetAPIKeys(ctx, now))
		}
		var runs []int64
		for _, run := range list {
			if run.over {
				runs = append(runs, run.run)
			}
		}
		if len(runs) > 0 {
			if err := r.tidyLarge(ctx, sizeRecords, deleteRecords, r.d.list(runs), before); err != nil {
				return err
			}
		}
		after = list[len(list)-1].run
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}

// ForgetKeys removes the idempotency keys that were put before a time.
func (r retention) ForgetKeys(ctx context.Context, before time.Time) error {
	_, err := r.tidy(ctx, forgetKeys, ms(before))
	return err
}
