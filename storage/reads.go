package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
)

// reader has the lists of a project: see [data.ByProject].
type reader struct {
	q        sqldb.Querier
	d        *sqldb.DB
	searches sqldb.Turns // of searches
}

// searchTime bounds a search.
const searchTime = 5 * time.Second

// searched runs search within the limit of concurrent searches and a limit of time. A search can read many rows and occupy a
// connection for long, so one client could otherwise use all connections.
func searched[T any](ctx context.Context, r reader, search func(context.Context, reader) (data.Page[T], error)) (data.Page[T], error) {
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
