package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/sqldb"
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
	read    *sqldb.Pool
	codec   *eventlog.Codec
	watcher *watcher

	threadKeys, runKeys keys

	// The writer's lock guards these.
	at       progress
	pending  pending
	packer   eventlog.Packer
	prepared time.Time // partitions exist up to here
}

// Commit writes batch n of the joined instance in one transaction: see [data.Store]. ctx should be one
// that is not cancelled when a client leaves.
func (c *committer) Commit(ctx context.Context, n int64, b *data.Batch) error {
	c.w.Lock()
	defer c.w.Unlock()
	if c.instance == "" {
		return errors.New("commit before Join")
	}
	if err := ctx.Err(); err != nil { // the driver would notice it now and then
		return err
	}
	if err := c.lock.Check(); err != nil {
		return err
	}
	c.prepareDays(ctx)
	err := c.commit(ctx, n, b)
	if errors.Is(err, errCommitted) {
		err = c.confirm(ctx)
	}
	if err == nil {
		c.at.last = n
	}
	return err
}

// confirm writes after a batch that was committed with an unknown result. A COMMIT that waited for a synchronous standby when its
// session ended can be read, but is on no standby; what is written behind it is not acknowledged before it is there.
func (c *committer) confirm(ctx context.Context) error {
	if c.d.Single {
		return nil
	}
	return c.keepLease(ctx)
}

func (c *committer) commit(ctx context.Context, n int64, b *data.Batch) error {
	alone := len(b.Rows) == 0 && len(b.Asks) == 0
	switch {
	case c.d.Single && n == c.at.last:
		return errCommitted
	case c.d.Single && n != c.at.last+1:
		return outOfStep(c.at.last, n-1)
	case c.d.Single && alone:
		return c.say(ctx, n, b.Events)
	case alone && len(b.Events) > 0:
		return c.append(ctx, n, b.Events)
	}
	err := c.transactBatch(ctx, c.w.TransactOpening, func(tx *commitTx) error {
		if err := tx.beginBatch(n); err != nil {
			return err
		}
		return tx.apply(b)
	})
	if err == nil || errors.Is(err, errCommitted) {
		c.at.row, c.at.rowAt = n, time.Now()
	}
	return err
}

// transactBatch runs fn in the transaction of a batch, which transact runs. The caller holds the lock.
func (c *committer) transactBatch(ctx context.Context, transact func(context.Context, func(*sqldb.Tx) error) error, fn func(*commitTx) error) error {
	batch := &commitTx{c: c, pending: &c.pending}
	batch.pending.reset() // the last transaction may have failed
	err := transact(ctx, c.renewing(func(tx *sqldb.Tx) error {
		batch.Tx = tx
		if err := fn(batch); err != nil {
			return err
		}
		return batch.finish()
	}))
	if err != nil {
		return err
	}
	for _, note := range batch.committed {
		note()
	}
	return nil
}

// apply writes a batch. Pending rows are written at the end of the transaction.
func (tx *commitTx) apply(b *data.Batch) error {
	b.Deferred = nil
	tx.events = append(make([]data.StoredEvent, 0, len(b.Events)+4*len(b.Asks)), b.Events...) // which decisions add to
	if err := tx.put(b.Rows); err != nil {
		return err
	}
	if err := tx.decide(b); err != nil {
		return err
	}
	return tx.applyDeletes()
}

// decide takes the decisions of a batch.
func (tx *commitTx) decide(b *data.Batch) error {
	if len(b.Asks) == 0 {
		return nil
	}
	vs, err := tx.lockViews(b.Asks)
	if err != nil {
		return err
	}
	if err := tx.flush(); err != nil { // decisions see it
		return err
	}
	if err := vs.load(b.Asks); err != nil {
		return err
	}
	for i := range b.Asks {
		if vs.defers(&b.Asks[i]) {
			b.Deferred = append(b.Deferred, i)
			continue
		}
		v := vs.of(&b.Asks[i])
		follows := b.Decide(i, v)
		if err := follows.Refused; err != nil {
			if _, refused := errors.AsType[*data.Error](err); refused {
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
	tx.now, err = sqldb.One(tx.Context(), tx.Opening(), sqldb.Scalar[time.Time], advanceInstance, n, tx.c.lease(), tx.c.instance, tx.c.before(n))
	if errors.Is(err, data.ErrNotFound) {
		return tx.c.whyNot(tx.Tx, n)
	}
	return err
}

// Most commits of runs that stream are events alone. They need not say in the instance's row that they were made.

const (
	// appendEvents is a whole commit in one statement, for PostgreSQL. It inserts no row when the instance
	// may not write or has written the batch already.
	appendEvents = `
WITH fence AS (
	UPDATE instances SET commit_no = ?, leased_until = clock_timestamp() + ? * interval '1 millisecond'
	WHERE id = ? AND NOT fenced AND commit_no = ?
	RETURNING clock_timestamp() AS now)
INSERT INTO events (thread_key, first_event_id, last_event_id, run_key, committed_at, payload)
SELECT row.thread_key, row.first, row.last, row.run_key, fence.now, row.payload
FROM fence, unnest(?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::text[])
	AS row (thread_key, first, last, run_key, payload)`

	// mayWrite checks the fence on SQLite, where a transaction locks the whole database.
	mayWrite = `
SELECT clock_timestamp() FROM instances WHERE id = ? AND NOT fenced AND commit_no = ?`

	selectSaid = `
SELECT 1 FROM events WHERE thread_key = ? AND last_event_id >= ? LIMIT 1`
)

// progress is the joined instance's position. On PostgreSQL the instance's row has it.
type progress struct {
	last  int64 // the last batch that was committed
	row   int64 // last batch in the instance's row
	doubt int64 // a batch of events alone that was tried

	rowAt time.Time // when a batch was last written to the row; zero once the row shows that the instance has outlived that batch
}

// outlives reports whether the joined instance has to write once that it lives, a second after its last batch. So on SQLite, too, its row
// shows which claims it has outlived by a second, and an idle server writes nothing.
func (c *committer) outlives() bool {
	return !c.at.rowAt.IsZero() && time.Since(c.at.rowAt) >= time.Second
}

// outlived notes that the instance has written that it lives, unless err.
func (c *committer) outlived(err error) error {
	if err == nil {
		c.at.rowAt = time.Time{}
	}
	return err
}

// before is the commit number that the instance's row has before batch n.
func (c *committer) before(n int64) int64 {
	if c.d.Single {
		return c.at.row
	}
	return n - 1
}

// say commits a batch of events alone on SQLite. It does not update the instance's row, which would write another page
// for each token. A retried batch was committed if its first event exists: only this instance writes, and events behind
// a thread's last span are never removed.
func (c *committer) say(ctx context.Context, n int64, events []data.StoredEvent) error {
	tried, outlives := c.at.doubt == n && len(events) > 0, c.outlives()
	c.at.doubt = n
	err := c.transactBatch(ctx, c.w.Transact, func(tx *commitTx) (err error) {
		if tried {
			said, err := sqldb.All(ctx, tx, sqldb.Scalar[int], selectSaid, events[0].ThreadKey, events[0].ID)
			if err != nil {
				return err
			}
			if len(said) > 0 {
				return errCommitted
			}
		}
		tx.now, err = sqldb.One(ctx, tx, sqldb.Scalar[time.Time], mayWrite, c.instance, c.at.row)
		if errors.Is(err, data.ErrNotFound) {
			in, err := readInstance(ctx, tx, c.instance)
			return in.mayFollow(c.at.row, err)
		}
		tx.events = slices.Clip(events)
		if err == nil && outlives {
			err = tx.Exec(keepLease, c.lease(), c.instance)
		}
		return err
	})
	if outlives {
		return c.outlived(err)
	}
	return err
}

// append commits events alone, in one statement.
func (c *committer) append(ctx context.Context, n int64, events []data.StoredEvent) error {
	defer c.packer.Done()
	rows, err := c.packer.Pack(events)
	if err != nil {
		return err
	}
	threads, firsts, lasts, runs, payloads := columns(rows)
	inserted, err := c.w.Count(ctx, appendEvents, n, c.lease(), c.instance, n-1, threads, firsts, lasts, runs, payloads)
	if err != nil || inserted > 0 {
		return err
	}
	return c.transact(ctx, func(tx *sqldb.Tx) error { return c.whyNot(tx, n) })
}

func columns(rows []eventlog.Row) (threads, firsts, lasts, runs sqldb.Int8s, payloads sqldb.Texts) {
	numbers := make(sqldb.Int8s, 4*len(rows))
	threads, numbers = numbers[:len(rows)], numbers[len(rows):]
	firsts, numbers = numbers[:len(rows)], numbers[len(rows):]
	lasts, runs = numbers[:len(rows)], numbers[len(rows):]
	payloads = make(sqldb.Texts, len(rows))
	for i, row := range rows {
		threads[i], firsts[i], lasts[i], runs[i], payloads[i] = row.Thread, row.First, row.Last, row.Run, row.Payload
	}
	return threads, firsts, lasts, runs, payloads
}
