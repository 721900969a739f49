package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"
	"golang.org/x/sync/semaphore"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
)

// pool runs the statements of reads on any of several connections, prepared.
type pool struct {
	*sqlx.DB
	d     *dialect
	stmts sync.Map // from an inForm to its *sqlx.Stmt
}

// query implements querier.
func (p *pool) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return p.queryIn(ctx, plain, query, args)
}

func (p *pool) queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error) {
	key := inForm{query, f}
	stmt, ok := p.stmts.Load(key)
	if !ok {
		prepared, err := p.PreparexContext(ctx, p.d.statement(query, f))
		if err != nil {
			return nil, err
		}
		var lost bool
		if stmt, lost = p.stmts.LoadOrStore(key, prepared); lost {
			defer prepared.Close()
		}
	}
	return stmt.(*sqlx.Stmt).QueryContext(ctx, args...) //nolint:sqlclosecheck // it stays prepared
}

// failed implements querier.
func (p *pool) failed(ctx context.Context, err error) error { return p.d.explained(ctx, err) }

// querier runs the statements of a reader: a pool, or a transaction.
type querier interface {
	// query prepares the statement, unless it is, and runs it.
	query(ctx context.Context, query string, args []any) (*sql.Rows, error)
	// failed returns err as the caller is to see it.
	failed(ctx context.Context, err error) error
}

// formed is the querier of statements in a form.
type formed struct {
	q interface {
		querier
		queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error)
	}
	form form
}

func (f formed) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return f.q.queryIn(ctx, f.form, query, args)
}

func (f formed) failed(ctx context.Context, err error) error { return f.q.failed(ctx, err) }

// The reads of a DB are next to the statements they run.
type (
	// reader has the reads of one project: see [data.ByProject].
	reader struct {
		q        querier
		d        *dialect
		searches turns // of searches
	}
	// keyed has the reads by key except those of logs: see [data.ByKey].
	keyed struct {
		q     querier
		d     *dialect
		lease time.Duration
		looks querier // at the queue
	}
	// logReader reads the logs of threads.
	logReader struct {
		q     querier
		z     *eventlog.Codec
		pages turns
	}
)

// turns limits the concurrent reads of a kind. The zero turns have no limit.
type turns struct{ places *semaphore.Weighted }

func turnsOf(n int) turns { return turns{semaphore.NewWeighted(int64(n))} }

// take waits for a turn, which is the caller's until end is called.
func (t turns) take(ctx context.Context, q querier) (end func(), err error) {
	if t.places == nil {
		return func() {}, nil
	}
	if err := t.places.Acquire(ctx, 1); err != nil {
		return nil, q.failed(ctx, err)
	}
	return func() { t.places.Release(1) }, nil
}

// unprepared runs the statements of searches, which PostgreSQL plans for their values: a rare word and a common one need different plans.
type unprepared struct{ *pool }

func (u unprepared) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return u.QueryContext(ctx, u.d.statement(query, plain), args...)
}

// searchTime bounds a search.
const searchTime = 5 * time.Second

// searched runs search within the limit of concurrent searches and a limit of time. A search can read many rows and occupy a
// connection for long, so one client could otherwise use all connections.
func searched[T any](ctx context.Context, r reader, search func(context.Context, reader) (data.Page[T], error)) (data.Page[T], error) {
	end, err := r.searches.take(ctx, r.q)
	if err != nil {
		return data.Page[T]{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeoutCause(ctx, searchTime, data.ErrTooSlow)
	defer cancel()
	if p, ok := r.q.(*pool); ok {
		r.q = unprepared{p}
	}
	p, err := search(ctx, r)
	if err != nil && errors.Is(context.Cause(ctx), data.ErrTooSlow) {
		err = fmt.Errorf("search for %v: %w", searchTime, data.ErrTooSlow)
	}
	return p, err
}

// all returns the rows of a query, read by scan.
func all[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	return some(ctx, q, scan, func(T) bool { return true }, query, args...)
}

// some is all, up to the row after which more reports false.
func some[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), more func(T) bool, query string, args ...any) ([]T, error) {
	rows, err := q.query(ctx, query, args)
	if err != nil {
		return nil, q.failed(ctx, err)
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, q.failed(ctx, err)
		}
		if list = append(list, v); !more(v) {
			return list, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, q.failed(ctx, err)
	}
	return list, nil
}

// whole is all for a query with a limit as its last parameter. It fails if there are more than max rows, because the
// caller needs all of them.
func whole[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), max int, query string, args ...any) ([]T, error) {
	list, err := all(ctx, q, scan, query, append(args, max+1)...)
	if err == nil && len(list) > max {
		err = q.failed(ctx, fmt.Errorf("there are more than %d rows", max))
	}
	return list, err
}

// one returns the first row query selects, or ErrNotFound.
func one[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	list, err := all(ctx, q, scan, query, args...)
	if err != nil || len(list) == 0 {
		var zero T
		if err == nil {
			err = data.ErrNotFound
		}
		return zero, err
	}
	return list[0], nil
}

// scalar reads a row of one column.
func scalar[T any](rows *sql.Rows) (v T, err error) {
	err = rows.Scan(&v)
	return v, err
}

// Reads on behalf of a client use these conditions: a key alone never reaches another project's rows. Each is evaluated
// once per statement.
const (
	runOfProject    = `(SELECT key FROM runs WHERE key = ? AND project_id = ?)`
	threadOfProject = `(SELECT key FROM threads WHERE key = ? AND project_id = ?)`
)
