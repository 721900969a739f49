package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/eventlog"
)

const (
	advanceInstance = `
UPDATE instances SET commit_no = ?, leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced AND commit_no = ?
RETURNING clock_timestamp()`
)

// errCommitted says that an earlier attempt has committed the batch.
var errCommitted = errors.New("committed before")

// committer commits the batches of the joined instance.
type committer struct {
	*writer
	read  *pool
	codec *eventlog.Codec

	threadKeys, runKeys keys

	// These are guarded by mu.
	at       progress
	pending  pending
	packer   eventlog.Packer
	prepared time.Time // partitions exist up to here
}

// Commit writes batch n of the joined instance in one transaction: see [model.Store]. ctx should be one
// that is not cancelled when a client leaves.
func (c *committer) Commit(ctx context.Context, n int64, b *model.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.instance == "" {
		return errors.New("commit before Join")
	}
	if err := ctx.Err(); err != nil { // the driver would notice it now and then
		return err
	}
	c.prepareDays(ctx)
	err := c.commit(ctx, n, b)
	if errors.Is(err, errCommitted) {
		err = nil
	}
	if err == nil {
		c.at.last = n
	}
	return err
}

func (c *committer) commit(ctx context.Context, n int64, b *model.Batch) error {
	alone := len(b.Rows) == 0 && len(b.Asks) == 0
	switch {
	case c.d.single && n == c.at.last:
		return errCommitted
	case c.d.single && n != c.at.last+1:
		return outOfStep(c.at.last, n-1)
	case c.d.single && alone:
		return c.say(ctx, n, b.Events)
	case alone && len(b.Events) > 0:
		return c.append(ctx, n, b.Events)
	}
	err := c.transactBatch(ctx, func(tx *commitTx) error { return tx.beginBatch(n) }, func(tx *commitTx) error { return tx.apply(b) })
	if err == nil || errors.Is(err, errCommitted) {
		c.at.row = n
	}
	return err
}

// transactBatch runs fn in the transaction of a batch, which begin begins. The caller holds mu.
func (c *committer) transactBatch(ctx context.Context, begin, fn func(*commitTx) error) error {
	batch := &commitTx{c: c, pending: &c.pending}
	batch.pending.reset() // the last transaction may have failed
	err := c.transactFrom(ctx, func(tx *tx) error {
		batch.tx = tx
		return begin(batch)
	}, func(*tx) error {
		if err := fn(batch); err != nil {
			return err
		}
		return batch.finish()
	})
	if err != nil {
		return err
	}
	for _, note := range batch.committed {
		note()
	}
	return nil
}

// apply writes a batch. Pending rows are written at the end of the transaction.
func (tx *commitTx) apply(b *model.Batch) error {
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
func (tx *commitTx) decide(b *model.Batch) error {
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

// beginBatch begins the transaction of batch n: it moves the instance's commit number to n, or says why that
// must not be.
func (tx *commitTx) beginBatch(n int64) (err error) {
	q := querier(tx)
	if tx.d.quote != nil {
		q = opening{tx.tx}
	} else if err := tx.begin(); err != nil {
		return err
	}
	tx.now, err = one(tx.ctx, q, scanTime, advanceInstance, n, tx.w.lease(), tx.w.instance, tx.c.before(n))
	if errors.Is(err, model.ErrNotFound) {
		return tx.c.whyNot(tx.tx, n)
	}
	return err
}

// opening sends the start and the first statement of a transaction in one message, which saves a round trip. Such a
// message cannot have parameters, but can name prepared statements, which are not planned again.
type opening struct{ *tx }

func (o opening) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if !o.session.opens {
		if err := o.session.exec(ctx, "PREPARE opening AS "+o.d.statement(query, plain)); err != nil {
			return nil, err
		}
		o.session.opens = true
	}
	values := make([]string, len(args))
	for i, arg := range args {
		values[i] = fmt.Sprint(arg)
		if text, ok := arg.(string); ok {
			values[i] = o.d.quote(text)
		}
	}
	return o.session.conn.QueryContext(ctx, o.d.begin+"; EXECUTE opening ("+strings.Join(values, ", ")+")")
}
