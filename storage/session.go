package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/model"
)

// session is the connection that writes, with the statements prepared on it. Its transactions are begun and
// ended by statements too: with an sql.Tx on the same sql.Conn, database/sql locks itself up when the
// connection breaks under a statement of the latter.
type session struct {
	conn  *sqlx.Conn
	d     *dialect
	stmts map[inForm]prepared
	own   *direct             // statements that write to SQLite; nil on PostgreSQL
	types map[string][]uint32 // of the parameters of queries for many rows
	opens bool                // the statement with which its transactions begin is prepared: see opening

	rows pending // of the transaction at work

	parts   map[inForm]batchPart
	batches map[string]string // by the numbers of their parts
}

// inForm is a query in one of its forms.
type inForm struct {
	query string
	form  form
}

// prepared is a statement that its session closes.
type prepared struct{ *sql.Stmt }

// stmt returns the statement of query, prepared.
func (s *session) stmt(ctx context.Context, query string, f form) (prepared, error) {
	key := inForm{query, f}
	if stmt, ok := s.stmts[key]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, s.d.statement(query, f))
	if err != nil {
		return prepared{}, err
	}
	s.stmts[key] = prepared{stmt}
	return prepared{stmt}, nil
}

// columns returns rows as an array for each parameter of the query.
func (s *session) columns(query string, rows [][]any) []any {
	types, ok := s.types[query]
	if !ok {
		types = typesOf(query)
		s.types[query] = types
	}
	arrays := make([]any, len(types))
	for at, oid := range types {
		arrays[at] = cells{rows, at, oid}
	}
	return arrays
}

// run carries a statement out, and returns how many rows it has changed.
func (s *session) run(ctx context.Context, query string, args []any) (int, error) {
	if s.own != nil {
		changed, err := s.own.run(ctx, s, query, args)
		return int(changed), err
	}
	stmt, err := s.stmt(ctx, query, plain)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	changed, err := res.RowsAffected()
	return int(changed), err
}

// exec runs a statement that has no parameters.
func (s *session) exec(ctx context.Context, statement string) error {
	_, err := s.conn.ExecContext(ctx, statement)
	return err
}

// writer returns the session, opening one when there is none. The caller holds mu.
func (db *DB) writer(ctx context.Context) (*session, error) {
	if db.session == nil {
		conn, err := db.write.Connx(ctx)
		if err != nil { // whatever keeps a connection from being opened says nothing of the data
			err = db.d.explained(ctx, err)
			if ctx.Err() == nil && !db.closed && !errors.Is(err, model.ErrDiskFull) && !errors.Is(err, model.ErrUnavailable) {
				err = fmt.Errorf("%w: %w", model.ErrUnavailable, err)
			}
			return nil, err
		}
		db.session = &session{
			conn: conn, d: db.d, stmts: make(map[inForm]prepared), types: make(map[string][]uint32),
			parts: make(map[inForm]batchPart), batches: make(map[string]string),
		}
		if db.d.single {
			db.session.own = &direct{stmts: make(map[forRows]driver.Stmt)}
		}
	}
	return db.session, nil
}

// drop closes the session and its connection, on which there may be anything. The caller holds mu.
func (db *DB) drop() {
	if db.session == nil {
		return
	}
	if db.d.single { // SQLite keeps a connection open that has a statement left, and with it the WAL
		for _, stmt := range db.session.stmts {
			_ = stmt.Close()
		}
		db.session.own.close()
	}
	// database/sql closes a connection of which its user says that it is bad.
	_ = db.session.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = db.session.conn.Close()
	db.session = nil
}
