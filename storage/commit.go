package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
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
	read    *pool
	codec   *eventlog.Codec
	watcher *watcher

	threadKeys, runKeys keys

	// These are guarded by mu.
	at       progress
	pending  pending
	packer   eventlog.Packer
	prepared time.Time // partitions exist up to here
}

// Commit writes batch n of the joined instance in one transaction: see [data.Store]. ctx should be one
// that is not cancelled when a client leaves.
func (c *committer) Commit(ctx context.Context, n int64, b *data.Batch) error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	if c.d.single {
		return nil
	}
	return c.keepLease(ctx)
}

func (c *committer) commit(ctx context.Context, n int64, b *data.Batch) error {
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
		c.at.row, c.at.rowAt = n, time.Now()
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
	q := querier(tx)
	if tx.d.quote != nil {
		q = opening{tx.tx}
	} else if err := tx.begin(); err != nil {
		return err
	}
	tx.now, err = one(tx.ctx, q, scanTime, advanceInstance, n, tx.w.lease(), tx.w.instance, tx.c.before(n))
	if errors.Is(err, data.ErrNotFound) {
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
	if c.d.single {
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
	err := c.transactBatch(ctx, (*commitTx).begin, func(tx *commitTx) (err error) {
		if tried {
			said, err := all(ctx, tx, scalar[int], selectSaid, events[0].ThreadKey, events[0].ID)
			if err != nil {
				return err
			}
			if len(said) > 0 {
				return errCommitted
			}
		}
		tx.now, err = one(ctx, tx, scanTime, mayWrite, c.instance, c.at.row)
		if errors.Is(err, data.ErrNotFound) {
			in, err := readInstance(ctx, tx, c.instance)
			return in.mayFollow(c.at.row, err)
		}
		tx.events = slices.Clip(events)
		if err == nil && outlives {
			err = tx.exec(keepLease, c.lease(), c.instance)
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
	session, err := c.connect(ctx)
	if err != nil {
		return err
	}
	stmt, err := session.stmt(ctx, appendEvents, plain)
	if err != nil {
		return c.broken(ctx, err)
	}
	threads, firsts, lasts, runs, payloads := columns(rows)
	res, err := stmt.ExecContext(ctx, n, c.lease(), c.instance, n-1, threads, firsts, lasts, runs, payloads)
	if err != nil {
		return c.broken(ctx, err)
	}
	if inserted, err := res.RowsAffected(); err != nil || inserted > 0 {
		return err
	}
	return c.transact(ctx, func(tx *tx) error { return c.whyNot(tx, n) })
}

func columns(rows []eventlog.Row) (threads, firsts, lasts, runs int8s, payloads texts) {
	numbers := make(int8s, 4*len(rows))
	threads, numbers = numbers[:len(rows)], numbers[len(rows):]
	firsts, numbers = numbers[:len(rows)], numbers[len(rows):]
	lasts, runs = numbers[:len(rows)], numbers[len(rows):]
	payloads = make(texts, len(rows))
	for i, row := range rows {
		threads[i], firsts[i], lasts[i], runs[i], payloads[i] = row.Thread, row.First, row.Last, row.Run, row.Payload
	}
	return threads, firsts, lasts, runs, payloads
}
