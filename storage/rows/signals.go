package rows

import (
	"context"
	"database/sql"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	insertSignal = `
INSERT INTO signals (run_key, n, name, payload, created_at)
VALUES (?::bigint, ?::bigint, ?::text, ?::text, ?::timestamptz)`

	takeSignals = `
DELETE FROM signals
WHERE run_key = ?::bigint AND n >= ?::bigint AND n <= ?::bigint`

	selectSignal = `
SELECT run_key, n, name, created_at, payload FROM signals WHERE run_key = ? AND name = ? AND n > ? ORDER BY n LIMIT 1`

	// selectSignals reads no payloads, because they can be large.
	selectSignals = `
SELECT run_key, n, name, created_at, octet_length(payload) FROM signals WHERE run_key = ANY (?) ORDER BY run_key, n`
)

func signalCells(s *data.Signal) []any {
	return []any{s.RunKey, s.N, s.Name, string(s.Payload), sqldb.Time(s.CreatedAt)}
}

func takenCells(t *data.TakenSignals) []any { return []any{t.RunKey, t.From, t.To} }

func scanSignal(rows *sql.Rows) (s data.Signal, err error) {
	return sqldb.Scan(rows, &s, &s.RunKey, &s.N, &s.Name, sqldb.Into(&s.CreatedAt), &s.Bytes)
}

// Signal returns the run's first signal of a name with a number above after.
func (r *Queue) Signal(ctx context.Context, runKey int64, name string, after int64) (data.Signal, error) {
	return sqldb.One(ctx, r.q, func(rows *sql.Rows) (s data.Signal, err error) {
		err = rows.Scan(&s.RunKey, &s.N, &s.Name, sqldb.Into(&s.CreatedAt), sqldb.Into(&s.Payload))
		s.Bytes = len(s.Payload)
		return s, err
	}, selectSignal, runKey, name, after)
}
