package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"math/bits"
	"strings"

	"github.com/jmoiron/sqlx"
)

// session is the connection that writes, with the statements prepared on it. Its transactions are begun and
// ended by statements too: with an sql.Tx on the same sql.Conn, database/sql locks itself up when the
// connection breaks under a statement of the latter.
type session struct {
	conn  *sqlx.Conn
	db    *DB
	stmts map[inForm]prepared
	own   *direct             // statements that write to SQLite; nil on PostgreSQL
	types map[string][]uint32 // of the parameters of queries for many rows
	opens bool                // the statement with which its transactions begin is prepared: see Opening
	name  string              // of the session on PostgreSQL

	parts   map[string]batchPart
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
	stmt, err := s.conn.PrepareContext(ctx, s.db.statement(query, f))
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
	arrays, columns := make([]any, len(types)), make([]cells, len(types))
	for at, oid := range types {
		columns[at] = cells{rows, at, oid}
		arrays[at] = &columns[at]
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

// direct has the statements that write to SQLite, prepared by its driver. database/sql's work for each execution would
// take a third of the time of a small row, as there is no round trip.
type direct struct {
	stmts map[forRows]driver.Stmt
	args  []driver.NamedValue // of the statement at work
}

// forRows is a query for some rows.
type forRows struct {
	query string
	n     int
}

// someRowsAtMost is the number of rows in one statement, which share its overhead and the search in tables and indexes,
// because new rows mostly go to their ends. Parameters are copied for SQLite, so large rows are inserted alone.
const (
	someRowsAtMost = 16
	muchOfARow     = 64 << 10 // bytes
)

// errNoDirect means that the driver lacks a method of SQLite's driver.
var errNoDirect = errors.New("the driver does not take statements with a context")

// write carries a statement for one row out for some, those that insert for several at once.
func (d *direct) write(ctx context.Context, s *session, query string, some [][]any) error {
	inserts := strings.Contains(query, "VALUES (")
	for n := 1; len(some) > 0; some = some[n:] {
		if inserts {
			n = 1 << (bits.Len(uint(little(some))) - 1) // a statement for each power of two
		}
		if _, err := d.run(ctx, s, query, some[:n]...); err != nil {
			return err
		}
	}
	return nil
}

// little is how many of the first rows go in together: one at least.
func little(some [][]any) int {
	for n, row := range some[:min(len(some), someRowsAtMost)] {
		if sizeOf(row) > muchOfARow {
			return max(n, 1)
		}
	}
	return min(len(some), someRowsAtMost)
}

// run carries a statement out for rows of parameters, and returns how many rows it has changed.
func (d *direct) run(ctx context.Context, s *session, query string, given ...[]any) (changed int64, err error) {
	defer clear(d.args)
	d.args = d.args[:0]
	for _, row := range given {
		if err := d.bind(row); err != nil {
			return 0, err
		}
	}
	err = s.conn.Raw(func(conn any) error {
		stmt, err := d.stmt(ctx, s, conn, forRows{query, max(len(given), 1)})
		if err != nil {
			return err
		}
		res, err := stmt.ExecContext(ctx, d.args)
		if err != nil {
			return err
		}
		changed, err = res.RowsAffected()
		return err
	})
	return changed, err
}

// bind adds arguments, as a driver takes them.
func (d *direct) bind(args []any) error {
	for _, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		} else if !driver.IsValue(arg) {
			var err error
			if arg, err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
				return err
			}
		}
		d.args = append(d.args, driver.NamedValue{Ordinal: len(d.args) + 1, Value: arg})
	}
	return nil
}

// stmt returns the statement of query on the driver's connection, prepared.
func (d *direct) stmt(ctx context.Context, s *session, conn any, of forRows) (driver.StmtExecContext, error) {
	stmt := d.stmts[of]
	if stmt == nil {
		preparer, ok := conn.(driver.ConnPrepareContext)
		if !ok {
			return nil, errNoDirect
		}
		var err error
		if stmt, err = preparer.PrepareContext(ctx, s.db.statement(someRows(of.query, of.n), plain)); err != nil {
			return nil, err
		}
		d.stmts[of] = stmt
	}
	exec, ok := stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errNoDirect
	}
	return exec, nil
}

// close closes the statements.
func (d *direct) close() {
	for _, stmt := range d.stmts {
		_ = stmt.Close()
	}
}
