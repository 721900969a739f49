package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/batonrun/baton/runtime/model"
)

const (
	advanceInstance = `
UPDATE instances SET commit_no = ?, leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced AND commit_no = ?
RETURNING clock_timestamp()`
)

// errCommitted says that an earlier attempt has committed the batch.
var errCommitted = errors.New("committed before")

// Commit writes batch n of the joined instance in one transaction: see [model.Store]. ctx should be one
// that is not cancelled when a client leaves.
func (db *DB) Commit(ctx context.Context, n int64, b *model.Batch) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.instance == "" {
		return errors.New("commit before Join")
	}
	if err := ctx.Err(); err != nil { // the driver would notice it now and then
		return err
	}
	db.prepareDays(ctx)
	err := db.commit(ctx, n, b)
	if errors.Is(err, errCommitted) {
		err = nil
	}
	if err == nil {
		db.at.last = n
	}
	return err
}

func (db *DB) commit(ctx context.Context, n int64, b *model.Batch) error {
	alone := len(b.Rows) == 0 && len(b.Asks) == 0
	switch {
	case db.d.single && n == db.at.last:
		return errCommitted
	case db.d.single && n != db.at.last+1:
		return outOfStep(db.at.last, n-1)
	case db.d.single && alone:
		return db.say(ctx, n, b.Events)
	case alone && len(b.Events) > 0:
		return db.append(ctx, n, b.Events)
	}
	begin := func(tx *tx) error { return tx.beginBatch(n) }
	err := db.transactFrom(ctx, begin, func(tx *tx) error { return tx.apply(b) })
	if err == nil || errors.Is(err, errCommitted) {
		db.at.row = n
	}
	return err
}

// apply writes a batch. Pending rows are written at the end of the transaction.
func (tx *tx) apply(b *model.Batch) error {
	tx.events = append(make([]model.StoredEvent, 0, len(b.Events)+4*len(b.Asks)), b.Events...) // which decisions add to
	if err := tx.put(b.Rows); err != nil {
		return err
	}
	if err := tx.decide(b); err != nil {
		return err
	}
	return tx.applyDeletes()
}

// decide takes the decisions of a batch.
func (tx *tx) decide(b *model.Batch) error {
	if len(b.Asks) == 0 {
		return nil
	}
	if err := tx.flush(); err != nil { // decisions see it
		return err
	}
	vs, err := tx.load(b.Asks)
	if err != nil {
		return err
	}
	for i := range b.Asks {
		v := vs.of(&b.Asks[i])
		follows := b.Decide(i, v)
		if err := follows.Refused; err != nil {
			if _, refused := errors.AsType[*model.Error](err); refused {
				continue
			}
			return err
		}
		vs.keep(v)
		tx.events = append(tx.events, follows.Events...)
		if err := tx.put(follows.Rows); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a transaction that writes.
func (tx *tx) begin() error { return tx.exec(tx.d.begin) }

// beginBatch begins the transaction of batch n: it moves the instance's commit number to n, or says why that
// must not be.
func (tx *tx) beginBatch(n int64) (err error) {
	q := querier(tx)
	if tx.db.d.quote != nil {
		q = opening{tx}
	} else if err := tx.begin(); err != nil {
		return err
	}
	tx.now, err = one(tx.ctx, q, scanTime, advanceInstance, n, tx.db.lease(), tx.db.instance, tx.db.before(n))
	if errors.Is(err, model.ErrNotFound) {
		return tx.whyNot(n)
	}
	return err
}

// opening sends the start and the first statement of a transaction in one message, which saves a round trip. Such a
// message cannot have parameters, but can name prepared statements, which are not planned again.
type opening struct{ *tx }

func (o opening) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if !o.session.opens {
		if err := o.session.exec(ctx, "PREPARE opening AS "+o.db.d.statement(query, plain)); err != nil {
			return nil, err
		}
		o.session.opens = true
	}
	values := make([]string, len(args))
	for i, arg := range args {
		values[i] = fmt.Sprint(arg)
		if text, ok := arg.(string); ok {
			values[i] = o.db.d.quote(text)
		}
	}
	return o.session.conn.QueryContext(ctx, o.db.d.begin+"; EXECUTE opening ("+strings.Join(values, ", ")+")")
}

// transact runs fn in a transaction and commits it, or rolls back when fn or one of its statements failed.
// The caller holds mu.
func (db *DB) transact(ctx context.Context, fn func(*tx) error) error {
	return db.transactFrom(ctx, (*tx).begin, fn)
}

// transactFrom is transact for a transaction that begin begins.
func (db *DB) transactFrom(ctx context.Context, begin, fn func(*tx) error) error {
	session, err := db.writer(ctx)
	if err != nil {
		return err
	}
	tx := newTx(ctx, db, session)
	done := false
	defer func() { // also when fn panics
		if !done {
			db.rollback(ctx, tx)
		}
	}()
	if err := begin(tx); err != nil {
		return tx.failed(ctx, err)
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.finish(); err != nil {
		return err
	}
	if err := tx.renew(); err != nil {
		return err
	}
	if err := tx.exec("COMMIT"); err != nil {
		return err
	}
	done = true
	for _, tell := range tx.committed {
		tell()
	}
	return nil
}

// rollback ends a transaction that failed.
func (db *DB) rollback(ctx context.Context, tx *tx) {
	if tx.session.exec(context.WithoutCancel(ctx), "ROLLBACK") != nil || lost(tx.err) {
		db.drop()
	}
}

// broken returns a failure of the session as the caller is to see it, and gives up its connection when that
// may be in an unknown state.
func (db *DB) broken(ctx context.Context, err error) error {
	err = db.d.explained(ctx, err)
	if lost(err) {
		db.drop()
	}
	return err
}

// lost reports whether a connection is not to be used again after err.
func lost(err error) bool {
	return errors.Is(err, model.ErrUnavailable) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}
