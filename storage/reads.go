package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
)

// The reads of a DB are next to the statements they run.
type (
	// reader has the reads of one project: see [data.ByProject].
	reader struct {
		q        sqldb.Querier
		d        *sqldb.DB
		searches sqldb.Turns // of searches
	}
	// keyed has the reads by key except those of logs: see [data.ByKey].
	keyed struct {
		q     sqldb.Querier
		d     *sqldb.DB
		looks sqldb.Querier // at the queue
	}
	// logReader reads the logs of threads.
	logReader struct {
		q     sqldb.Querier
		z     *eventlog.Codec
		pages sqldb.Turns
	}
)

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

// Reads on behalf of a client use these conditions: a key alone never reaches another project's rows. Each is evaluated
// once per statement.
const (
	runOfProject    = `(SELECT key FROM runs WHERE key = ? AND project_id = ?)`
	threadOfProject = `(SELECT key FROM threads WHERE key = ? AND project_id = ?)`
)

func keysOf(keys []int64) (list [][]any) {
	for _, key := range keys {
		list = append(list, []any{key})
	}
	return list
}

func namesOf(names []data.Name) (list [][]any) {
	for _, n := range names {
		list = append(list, []any{n.Project, n.User, n.ID})
	}
	return list
}

// Lists that statements read from.
const (
	unnestNames = `unnest(?::text[], ?::text[], ?::text[]) AS asked (project, owner, name)`
	unnestIDs   = `unnest(?::bigint[], ?::text[]) AS asked (thread_key, id)`
)
