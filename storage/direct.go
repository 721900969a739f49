package storage

import (
	"context"
	"database/sql/driver"
	"errors"
)

// direct are the statements that write to SQLite, prepared by its driver: what database/sql does about each time one is
// carried out takes a third as long as a small row, as there is no round trip beside which it would not count.
type direct struct {
	stmts map[string]driver.Stmt
	args  []driver.NamedValue // of the statement at work
}

// errNoDirect means that the driver lacks what SQLite's has.
var errNoDirect = errors.New("the driver does not take statements with a context")

// run carries a statement out, and returns how many rows it has changed.
func (d *direct) run(ctx context.Context, s *session, query string, args []any) (changed int64, err error) {
	if err := d.bind(args); err != nil {
		return 0, err
	}
	defer clear(d.args)
	err = s.conn.Raw(func(conn any) error {
		stmt, err := d.stmt(ctx, s, conn, query)
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

// bind makes the arguments what a driver takes.
func (d *direct) bind(args []any) error {
	d.args = d.args[:0]
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		} else if !driver.IsValue(arg) {
			var err error
			if arg, err = driver.DefaultParameterConverter.ConvertValue(arg); err != nil {
				return err
			}
		}
		d.args = append(d.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return nil
}

// stmt returns the statement of query on the driver's connection, prepared.
func (d *direct) stmt(ctx context.Context, s *session, conn any, query string) (driver.StmtExecContext, error) {
	stmt := d.stmts[query]
	if stmt == nil {
		preparer, ok := conn.(driver.ConnPrepareContext)
		if !ok {
			return nil, errNoDirect
		}
		var err error
		if stmt, err = preparer.PrepareContext(ctx, s.d.statement(query, plain)); err != nil {
			return nil, err
		}
		d.stmts[query] = stmt
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
