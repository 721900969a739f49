package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/klauspost/compress/zstd"

	"github.com/batonrun/baton/runtime"
)

// querier runs the statements of a reader: a pool, or a transaction.
type querier interface {
	// query prepares the statement once and runs it.
	query(ctx context.Context, query string, args []any) (*sql.Rows, error)
	// failed returns err as the caller is to see it.
	failed(ctx context.Context, err error) error
}

// all returns what query selects, each row read by scan.
func all[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	var list []T
	rows, err := q.query(ctx, query, args)
	if err != nil {
		return nil, q.failed(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, q.failed(ctx, err)
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, q.failed(ctx, err)
	}
	return list, nil
}

// one returns the first row query selects, or ErrNotFound.
func one[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	list, err := all(ctx, q, scan, query, args...)
	if err != nil || len(list) == 0 {
		var zero T
		if err == nil {
			err = runtime.ErrNotFound
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

// pool runs statements on any of several connections, prepared.
type pool struct {
	*sqlx.DB
	d     *dialect
	stmts sync.Map // from a query to its *sqlx.Stmt
}

func newPool(db *sqlx.DB, d *dialect) *pool { return &pool{DB: db, d: d} }

func (p *pool) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	stmt, ok := p.stmts.Load(query)
	if !ok {
		prepared, err := p.PreparexContext(ctx, p.d.statement(query, 1))
		if err != nil {
			return nil, err
		}
		var lost bool
		if stmt, lost = p.stmts.LoadOrStore(query, prepared); lost {
			prepared.Close()
		}
	}
	return stmt.(*sqlx.Stmt).QueryContext(ctx, args...)
}

func (p *pool) failed(ctx context.Context, err error) error { return p.d.explained(ctx, err) }

// session is the connection that writes, with the statements prepared on it.
type session struct {
	conn  *sqlx.Conn
	d     *dialect
	stmts map[forRows]*preparedStmt
}

// forRows is a query for n rows.
type forRows struct {
	query string
	n     int
}

type preparedStmt struct {
	*sql.Stmt
	reads []kind // what it may read of the rows that a transaction buffers
}

// stmt returns the prepared statement of query for n rows.
func (s *session) stmt(ctx context.Context, query string, n int) (*preparedStmt, error) {
	key := forRows{query, n}
	if stmt := s.stmts[key]; stmt != nil {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, s.d.statement(query, n))
	if err != nil {
		return nil, err
	}
	prepared := &preparedStmt{Stmt: stmt}
	for k, table := range tables {
		if strings.Contains(query, table) {
			prepared.reads = append(prepared.reads, kind(k))
		}
	}
	s.stmts[key] = prepared
	return prepared, nil
}

// writer returns the session, opening one when there is none. The caller holds mu.
func (db *DB) writer(ctx context.Context) (*session, error) {
	if db.session == nil {
		conn, err := db.pool.Connx(ctx)
		if err != nil {
			return nil, err
		}
		db.session = &session{conn: conn, d: db.d, stmts: make(map[forRows]*preparedStmt)}
	}
	return db.session, nil
}

// drop closes the session and its connection, on which there may be anything. The caller holds mu.
func (db *DB) drop() {
	if db.session == nil {
		return
	}
	// database/sql closes a connection of which its user says that it is bad.
	_ = db.session.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = db.session.conn.Close()
	db.session = nil
}

// reader holds the reads of a DB and of a transaction. They are next to the statements they run.
type reader struct {
	q querier
	d *dialect
	z *zstd.Decoder
}
