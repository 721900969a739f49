// Package lists reads the lists of a project by filters and searches: threads, runs, users, questions and the audit. It also adds up and
// reads the statistics of runs, the usage of model calls and the use of budgets.
package lists

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// Pages reads the lists of a project: see [data.ByProject].
type Pages struct {
	q        sqldb.Querier
	d        *sqldb.DB
	searches sqldb.Turns
}

// NewPages returns the Pages of a database, which searches in turns.
func NewPages(d *sqldb.DB, q sqldb.Querier, searches sqldb.Turns) Pages {
	return Pages{q, d, searches}
}

// Words are texts for SQLite's full-text search, each before the text that SQLite has instead of it: see [sqldb.Config].
var Words = []string{
	keysByTerms, "SELECT run_terms.rowid AS key, 0 AS at FROM run_terms WHERE run_terms MATCH ?",
	"run_terms.terms @@ ?", "run_terms MATCH ?",
	"run_terms.run_key", "run_terms.rowid",
}

// searchTime bounds a search.
const searchTime = 5 * time.Second

// searched runs search within the limit of concurrent searches and a limit of time. A search can read many rows and occupy a
// connection for long, so one client could otherwise use all connections.
func searched[T any](ctx context.Context, r Pages, search func(context.Context, Pages) (data.Page[T], error)) (data.Page[T], error) {
	end, err := r.searches.Take(ctx, r.q)
	if err != nil {
		return data.Page[T]{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, data.ErrTooSlow)
	defer cancel()
	if p, ok := r.q.(*sqldb.Pool); ok {
		r.q = p.Unprepared()
	}
	p, err := search(ctx, r)
	if err != nil && errors.Is(context.Cause(ctx), data.ErrTooSlow) {
		err = fmt.Errorf("search for %v: %w", searchTime, data.ErrTooSlow)
	}
	return p, err
}
