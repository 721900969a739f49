package rows

import (
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

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
func (tx *Tx) writeKeys() error {
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
