package storage

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
	"github.com/batonrun/baton/storage/sqldb"
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
VALUES (?::bigint, array_to_tsvector(string_to_array(?::text, ' ')))`

	// A run that ended twice can be indexed by two processes at the same time.
	replaceTerms = `
ON CONFLICT (run_key) DO UPDATE SET terms = excluded.terms`

	deleteTerms = `
DELETE FROM run_terms WHERE run_terms.run_key = ANY (?)`

	// selectBegun reads the terms between two, which are of one scope (see terms.Text), on SQLite, with a look into the index for each: run_words has a row for each run of a term.
	selectBegun = `
WITH RECURSIVE begun (term) AS (
	SELECT (SELECT term FROM run_words WHERE term >= ? AND term <= ? LIMIT 1)
	UNION ALL
	SELECT (SELECT term FROM run_words WHERE term >= begun.term || char(1) AND term <= ? LIMIT 1) FROM begun WHERE begun.term IS NOT NULL
	LIMIT ?
)
SELECT term FROM begun WHERE term IS NOT NULL`
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

// index writes the terms of runs for a while, and returns how many of the keys it has come to. Runs that were deleted have none.
func index(tx *sqldb.Tx, keys []int64) (n int, err error) {
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

// search is the search for a list of runs by terms.
type search struct {
	terms string // in the database's language, "" if no run has them
	facts string // those of a run's tags and metadata, "" if none is asked for
}

// maxBegun is how many terms with a beginning are read before a search.
const maxBegun = 8

// searchFor returns the search of a filter.
func (r reader) searchFor(ctx context.Context, f *data.RunFilter) (by search, err error) {
	if f.Text != "" && len(f.Tags)+len(f.Metadata) > 0 {
		facts := *f
		facts.Text = ""
		find, _ := terms.For(&facts)
		by.facts = searchTerms(r.d, find, nil)
	}
	find, ok := terms.For(f)
	if !ok {
		return by, nil
	}
	begun := make(map[string][]string)
	for _, begin := range find.Begun {
		if !r.d.Single {
			break
		}
		last := begin + string(unicode.MaxRune)
		list, err := sqldb.All(ctx, r.q, sqldb.Scalar[string], selectBegun, begin, last, last, maxBegun+1)
		if err != nil {
			return search{}, err
		}
		if 0 < len(list) && len(list) <= maxBegun {
			begun[begin] = list
		}
	}
	by.terms = searchTerms(r.d, find, begun)
	return by, nil
}

// searchTerms returns a search as a tsquery, or as FTS5 reads it. Terms have no quotes. For a beginning FTS5 reads all runs of all its terms
// before it returns one; with the terms themselves, where these are known, it reads few.
func searchTerms(d *sqldb.DB, s terms.Search, begun map[string][]string) string {
	if !d.Single {
		return strings.Join(append(quoted(s.Whole, `'%s'`), quoted(s.Begun, `'%s':*`)...), " & ")
	}
	list := quoted(s.Whole, `"%s"`)
	for _, begin := range s.Begun {
		if known := begun[begin]; known != nil {
			list = append(list, "("+strings.Join(quoted(known, `"%s"`), " OR ")+")")
		} else {
			list = append(list, quoted([]string{begin}, `"%s"*`)...)
		}
	}
	return strings.Join(list, " AND ")
}

func quoted(terms []string, format string) (list []string) {
	for _, term := range terms {
		list = append(list, fmt.Sprintf(format, term))
	}
	return list
}
