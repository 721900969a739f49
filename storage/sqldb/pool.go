package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
)

// Querier runs the statements of a reader, on any connection or in a transaction.
type Querier interface {
	// Query prepares the statement, unless it is, and runs it.
	Query(ctx context.Context, query string, args []any) (*sql.Rows, error)
	// Failed returns err as the caller is to see it.
	Failed(ctx context.Context, err error) error
}

// Pool is several connections to a database. Its queries are prepared on each.
type Pool struct {
	DB  *DB
	SQL *sqlx.DB // for what has no method here

	stmts sync.Map // from an inForm to its *sqlx.Stmt
}

// Query implements Querier.
func (p *Pool) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return p.queryIn(ctx, plain, query, args)
}

func (p *Pool) queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error) {
	key := inForm{query, f}
	stmt, ok := p.stmts.Load(key)
	if !ok {
		prepared, err := p.SQL.PreparexContext(ctx, p.DB.statement(query, f))
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

func (p *Pool) elements(list [][]any) ([]any, form) { return p.DB.elements(list) }

// Failed implements Querier.
func (p *Pool) Failed(ctx context.Context, err error) error { return p.DB.explained(ctx, err) }

// Exec runs a statement in a transaction of its own, and returns how many rows it has changed. It does not prepare it.
func (p *Pool) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := p.SQL.ExecContext(ctx, p.DB.statement(query, plain), args...)
	if err != nil {
		return 0, p.Failed(ctx, err)
	}
	return res.RowsAffected()
}

// Close closes the connections. That the other side has closed them is no error.
func (p *Pool) Close() error {
	if err := p.SQL.Close(); !isConnectionError(err) {
		return err
	}
	return nil
}

// Unprepared returns a Querier that does not prepare statements: PostgreSQL plans them for their values.
func (p *Pool) Unprepared() Querier { return unprepared{p.SQL, p.DB} }

// unprepared runs statements on one or several connections.
type unprepared struct {
	conn sqlx.QueryerContext
	db   *DB
}

// Query implements Querier.
func (u unprepared) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return u.conn.QueryContext(ctx, u.db.statement(query, plain), args...)
}

// Failed implements Querier.
func (u unprepared) Failed(ctx context.Context, err error) error { return u.db.explained(ctx, err) }

// Snapshot calls fn with a Querier that reads the database as of one moment.
func (p *Pool) Snapshot(ctx context.Context, fn func(Querier) error) error {
	conn, err := p.SQL.Connx(ctx)
	if err != nil {
		return p.Failed(ctx, err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, p.DB.beginRead); err != nil {
		return p.Failed(ctx, err)
	}
	defer func() {
		if _, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the transaction is still open
		}
	}()
	return fn(unprepared{conn, p.DB})
}

// Transact runs fn in a transaction, beside a Writer. It rolls back when fn fails.
func (p *Pool) Transact(ctx context.Context, fn func(q Querier, exec func(query string, args ...any) error) error) error {
	begun, err := p.SQL.BeginTxx(ctx, nil)
	if err != nil {
		return p.Failed(ctx, err)
	}
	defer func() { _ = begun.Rollback() }() // does nothing after a commit
	exec := func(query string, args ...any) error {
		_, err := begun.ExecContext(ctx, p.DB.statement(query, plain), args...)
		return p.Failed(ctx, err)
	}
	if err := fn(unprepared{begun, p.DB}, exec); err != nil {
		return err
	}
	return p.Failed(ctx, begun.Commit())
}

// All returns the rows of a query, read by scan.
func All[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	return Some(ctx, q, scan, func(T) bool { return true }, query, args...)
}

// Some is All, up to the row after which more reports false.
func Some[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), more func(T) bool, query string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, query, args)
	if err != nil {
		return nil, q.Failed(ctx, err)
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, q.Failed(ctx, err)
		}
		if list = append(list, v); !more(v) {
			return list, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, q.Failed(ctx, err)
	}
	return list, nil
}

// Whole is All for a query with a limit as its last parameter. It fails if there are more than max rows, because the
// caller needs all of them.
func Whole[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), max int, query string, args ...any) ([]T, error) {
	list, err := All(ctx, q, scan, query, append(args, max+1)...)
	if err == nil && len(list) > max {
		err = q.Failed(ctx, fmt.Errorf("there are more than %d rows", max))
	}
	return list, err
}

// One returns the first row that a query selects, or data.ErrNotFound.
func One[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	list, err := All(ctx, q, scan, query, args...)
	if err != nil || len(list) == 0 {
		var zero T
		if err == nil {
			err = data.ErrNotFound
		}
		return zero, err
	}
	return list[0], nil
}

// finder is a Pool or a Tx.
type finder interface {
	Querier
	queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error)
	elements(list [][]any) ([]any, form)
}

// formed is the Querier of statements in a form.
type formed struct {
	finder
	form form
}

// Query implements Querier.
func (f formed) Query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return f.queryIn(ctx, f.form, query, args)
}

// Find is All for a query with lists as parameters: of one column, or of one for each parameter of unnest. A row of list has an element of
// each. An empty list yields no rows.
func Find[T any](ctx context.Context, q finder, scan func(*sql.Rows) (T, error), query string, list [][]any) ([]T, error) {
	if len(list) == 0 {
		return nil, nil
	}
	once, f := q.elements(list)
	args := slices.Clip(once)
	for range strings.Count(query, "?")/len(list[0]) - 1 { // the query has the list several times
		args = append(args, once...)
	}
	return All(ctx, formed{q, f}, scan, query, args...)
}

// Scan reads a row into v, of which into are the parts.
func Scan[T any](rows *sql.Rows, v *T, into ...any) (T, error) {
	err := rows.Scan(into...)
	return *v, err
}

// Scalar reads a row of one column.
func Scalar[T any](rows *sql.Rows) (v T, err error) {
	if t, ok := any(&v).(*time.Time); ok {
		return Scan(rows, &v, timeInto{t})
	}
	return Scan(rows, &v, &v)
}

const selectTime = `
SELECT clock_timestamp()`

// Now returns the database's time.
func Now(ctx context.Context, q Querier) (time.Time, error) {
	return One(ctx, q, Scalar[time.Time], selectTime)
}
