package storage

import (
	"context"
	"database/sql"
	"time"
)

// tx is a transaction.
type tx struct {
	ctx     context.Context
	begun   time.Time
	w       *writer
	d       *dialect
	session *session
	batch   writeBatch
	err     error // the first failure
}

// begin begins a transaction that writes.
func (tx *tx) begin() error { return tx.exec(tx.d.begin) }

// renew renews the lease again if the transaction has used up much of it. Otherwise an instance that waits for the
// row's lock could find the lease expired.
func (tx *tx) renew() error {
	if tx.d.single || time.Since(tx.begun) < tx.w.cfg.Lease/3 {
		return nil
	}
	return tx.exec(keepLease, tx.w.lease(), tx.w.instance)
}

// query implements querier.
func (tx *tx) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	return tx.queryIn(ctx, plain, query, args)
}

func (tx *tx) queryIn(ctx context.Context, f form, query string, args []any) (*sql.Rows, error) {
	if err := tx.send(); err != nil {
		return nil, err
	}
	stmt, err := tx.session.stmt(ctx, query, f)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// failed implements querier.
func (tx *tx) failed(ctx context.Context, err error) error { return tx.fail(tx.d.explained(ctx, err)) }

// fail makes err, explained already, the end of the transaction.
func (tx *tx) fail(err error) error {
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// exec runs a statement.
func (tx *tx) exec(query string, args ...any) error {
	_, err := tx.count(query, args...)
	return err
}

// count is exec, and returns how many rows the statement has changed.
func (tx *tx) count(query string, args ...any) (int, error) {
	if err := checkText(args); err != nil {
		return 0, tx.fail(err)
	}
	if err := tx.send(); err != nil {
		return 0, err
	}
	return tx.run(query, args)
}

func (tx *tx) run(query string, args []any) (int, error) {
	changed, err := tx.session.run(tx.ctx, query, args)
	if err != nil {
		return 0, tx.failed(tx.ctx, err)
	}
	return changed, nil
}

// define runs a statement without preparing it, because it changes the schema or runs once.
func (tx *tx) define(statement string) error {
	if tx.err != nil {
		return tx.err
	}
	if err := tx.session.exec(tx.ctx, statement); err != nil {
		return tx.failed(tx.ctx, err)
	}
	return nil
}
