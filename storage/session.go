package storage

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"
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
