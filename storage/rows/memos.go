package rows

import (
	"context"
	"database/sql"

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
func (r *Reader) Memos(ctx context.Context, runKey int64, generation int) ([]data.Memo, error) {
	return sqldb.Whole(ctx, r.q, scanMemo, maxMemos, selectMemos, runKey, generation)
}
