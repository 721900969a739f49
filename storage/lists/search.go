package lists

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/terms"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
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

// search is the search for a list of runs by terms.
type search struct {
	terms string // in the database's language, "" if no run has them
	facts string // those of a run's tags and metadata, "" if none is asked for
}

// maxBegun is how many terms with a beginning are read before a search.
const maxBegun = 8

// searchFor returns the search of a filter.
func (r Pages) searchFor(ctx context.Context, f *data.RunFilter) (by search, err error) {
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
