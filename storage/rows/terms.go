package rows

import (
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
	"github.com/batonrun/baton/storage/sqldb"
)

// The commit that starts a run writes its first search terms. After the run has ended, RollUp replaces them: it adds the answer, the error
// and the thread's title.

const (
	selectTexts = `
SELECT r.key, r.project_id, r.user_id, r.workflow_id, r.thread_key, r.id, r.error, r.output_summary, COALESCE(substr(i.input_query, 1, 65536), ''),
	i.metadata, t.thread_id, t.title
FROM runs r
LEFT JOIN run_inputs i ON i.run_key = r.key
JOIN threads t ON t.key = r.thread_key
WHERE r.key = ANY (?)`

	insertTerms = `
INSERT INTO run_terms (run_key, terms)
VALUES (?::bigint, array_to_tsvector(string_to_array(?::text, ' ')))`

	// A run that ended twice can be indexed by two processes at the same time.
	replaceTerms = `
ON CONFLICT (run_key) DO UPDATE SET terms = excluded.terms`

	deleteTerms = `
DELETE FROM run_terms WHERE run_terms.run_key = ANY (?)`
)

const (
	textsAtOnce = 16                   // runs whose texts are in memory
	indexFor    = 4 * time.Millisecond // after which a transaction begins no other runs: commits wait for it
)

// scanTexts returns the cells of a run's terms.
func scanTexts(rows *sql.Rows) ([]any, error) {
	var r data.Run
	err := rows.Scan(&r.Key, &r.Project, &r.User, &r.WorkflowID, &r.ThreadKey, &r.ID, sqldb.Into(&r.Error), &r.OutputSummary, &r.InputQuery,
		sqldb.Into(&r.Metadata), &r.ThreadID, &r.ThreadTitle)
	return termCells(&r), err
}

func termCells(r *data.Run) []any { return []any{r.Key, terms.Text(r)} }

// IndexTerms writes the terms of runs for a while, and returns how many of the keys it has come to. Runs that were deleted have none.
func IndexTerms(tx *sqldb.Tx, keys []int64) (n int, err error) {
	for start := time.Now(); n < len(keys) && (n == 0 || time.Since(start) < indexFor); {
		some := keys[n:min(n+textsAtOnce, len(keys))]
		list, err := sqldb.All(tx.Context(), tx, scanTexts, selectTexts, tx.DB.List(some))
		if err != nil {
			return n, err
		}
		if err := tx.Exec(deleteTerms, tx.DB.List(some)); err != nil {
			return n, err
		}
		if sqldb.Write(tx, list, insertTerms+replaceTerms, func(cells *[]any) []any { return *cells }); tx.Err() != nil {
			return n, tx.Err()
		}
		n += len(some)
	}
	return n, nil
}
