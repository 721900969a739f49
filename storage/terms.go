package storage

import (
	"database/sql"
	"fmt"
	"strings"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
)

// A commit that starts a run writes the terms of what is known then. RollUp writes them again when the run has ended, with its answer,
// its error and its thread's title.

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
VALUES (?::bigint, array_to_tsvector(string_to_array(?::text, ' ')))` + replaceTerms

	// A run that ended twice can be indexed by two processes at the same time.
	replaceTerms = `
ON CONFLICT (run_key) DO UPDATE SET terms = excluded.terms`

	deleteTerms = `
DELETE FROM run_terms WHERE run_terms.run_key = ANY (?)`
)

const (
	textsAtOnce = 32     // runs whose texts are in memory
	termsAtOnce = 20_000 // terms that one transaction writes: commits wait for it
)

// indexed is a run with its terms.
type indexed struct {
	key   int64
	terms []string
}

func scanTexts(rows *sql.Rows) (i indexed, err error) {
	var r data.Run
	err = rows.Scan(&r.Key, &r.Project, &r.User, &r.WorkflowID, &r.ThreadKey, &r.ID, jsonInto{&r.Error}, &r.OutputSummary, &r.InputQuery,
		rawInto{&r.Metadata}, &r.ThreadID, &r.ThreadTitle)
	return indexed{r.Key, terms.Of(&r)}, err
}

func termCells(r *data.Run) []any { return []any{r.Key, strings.Join(terms.Of(r), " ")} }

// index writes the terms of runs until they are many, and returns how many of the keys it has come to. Runs that were deleted have none.
func index(tx *tx, keys []int64) (n int, err error) {
	for written := 0; n < len(keys) && written < termsAtOnce; {
		some := keys[n:min(n+textsAtOnce, len(keys))]
		list, err := all(tx.ctx, tx, scanTexts, selectTexts, tx.d.list(some))
		if err != nil {
			return n, err
		}
		if err := tx.exec(deleteTerms, tx.d.list(some)); err != nil {
			return n, err
		}
		rows, size := make([][]any, len(list)), 0
		for i := range list {
			rows[i] = []any{list[i].key, strings.Join(list[i].terms, " ")}
			written, size = written+len(list[i].terms), size+textSize(rows[i])
		}
		if err := tx.writeSome(insertTerms, rows, size); err != nil {
			return n, err
		}
		n += len(some)
	}
	return n, nil
}

// searchFor returns a search in a database's language. Terms have no quotes.
func searchFor(s terms.Search, whole, begun, and string) string {
	var list []string
	for _, term := range s.Whole {
		list = append(list, fmt.Sprintf(whole, term))
	}
	for _, term := range s.Begun {
		list = append(list, fmt.Sprintf(begun, term))
	}
	return strings.Join(list, and)
}
