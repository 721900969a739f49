package storage

import (
	"context"
	"database/sql"
	"time"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/eventlog"
)

// tx is a transaction.
type tx struct {
	ctx     context.Context
	begun   time.Time
	db      *DB
	d       *dialect
	session *session
	now     time.Time
	rows    *pending
	batch   writeBatch
	deletes []*model.Delete
	events  []model.StoredEvent
	err     error // the first failure

	committed []func() // called once it is committed
}

func newTx(ctx context.Context, db *DB, s *session) *tx {
	tx := &tx{ctx: ctx, begun: time.Now(), db: db, d: db.d, session: s, rows: &s.rows}
	tx.rows.reset() // the last transaction may have failed
	return tx
}

// finish writes the pending rows, then the events.
func (tx *tx) finish() error {
	if err := tx.writePending(); err != nil {
		return err
	}
	if len(tx.events) == 0 {
		return tx.send()
	}
	defer tx.db.packer.Done()
	list, err := tx.db.packer.Pack(tx.events)
	if err != nil {
		return tx.fail(err)
	}
	tx.events = nil
	if tx.d.unnest {
		threads, firsts, lasts, runs, payloads := columns(list)
		if err := tx.addToBatch(insertEventRows, plain, []any{tx.now, threads, firsts, lasts, runs, payloads}, 0); err != nil {
			return err
		}
		return tx.send()
	}
	write(tx, list, insertEvents, func(r *eventlog.Row) []any {
		return []any{r.Thread, r.First, r.Last, r.Run, tx.now, string(r.Payload)}
	})
	return tx.err
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
