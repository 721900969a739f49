package storage

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/runtime/model"
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

// tidyRows is how many rows one transaction removes: commits and the lease wait for it.
const tidyRows = 1000

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
func (db *DB) Prune(ctx context.Context, now time.Time) error {
	before := ms(now.Add(-keepAfter))
	for after := int64(0); ; {
		list, err := all(ctx, db.read, scanRecorded, selectRecorded, before, after)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.Join(db.tidy(ctx, deleteInstances, before), db.forgetAPIKeys(ctx, now))
		}
		var runs []int64
		for _, r := range list {
			if r.over {
				runs = append(runs, r.run)
			}
		}
		if len(runs) > 0 {
			if err := db.tidyLarge(ctx, sizeRecords, deleteRecords, db.d.list(runs), before); err != nil {
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
func (db *DB) ForgetKeys(ctx context.Context, before time.Time) error {
	return db.tidy(ctx, forgetKeys, ms(before))
}

// tidy runs a statement until it removes no more rows. The last parameter is a number of rows; each run is a transaction of its own,
// and commits continue in between.
func (db *DB) tidy(ctx context.Context, query string, args ...any) error {
	for {
		n, err := db.tidySome(ctx, query, append(args, tidyRows)...)
		if err != nil || n < tidyRows {
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}

// tidyLarge is tidy for rows that may be large: sizes selects the sizes of the next rows, and takes the same parameters.
func (db *DB) tidyLarge(ctx context.Context, sizes, remove string, args ...any) error {
	for {
		more, err := db.tidySomeLarge(ctx, sizes, remove, args)
		if err != nil || !more {
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}

func (db *DB) tidySomeLarge(ctx context.Context, sizes, remove string, args []any) (more bool, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	err = db.tidyUp(ctx, func(tx *tx) error {
		list, err := all(ctx, tx, scalar[int], sizes, append(slices.Clip(args), tidyRows)...)
		n, _ := within(list, deletedBytes)
		if n == 0 {
			return err
		}
		more = n < len(list) || n == tidyRows
		return tx.exec(remove, append(slices.Clip(args), n)...)
	})
	return more, err
}

func (db *DB) tidySome(ctx context.Context, query string, args ...any) (n int, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	err = db.tidyUp(ctx, func(tx *tx) (err error) {
		n, err = tx.count(query, args...)
		return err
	})
	return n, err
}

// tidyUp is transact for work that is no commit. It fails with ErrFenced on an instance that was fenced.
func (db *DB) tidyUp(ctx context.Context, fn func(*tx) error) error {
	return db.transact(ctx, func(tx *tx) error {
		if db.instance != "" {
			if _, err := one(ctx, tx, scalar[string], lockInstance, db.instance); errors.Is(err, model.ErrNotFound) {
				return model.ErrFenced
			} else if err != nil {
				return err
			}
		}
		return fn(tx)
	})
}
