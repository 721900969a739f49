package storage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/lists"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

// committer commits the batches of the joined instance.
type committer struct {
	w    *members.Writer
	cfg  Config
	d    *sqldb.DB
	rows *rows.Commits

	prepared time.Time // partitions exist up to here; the lock of the writer's session guards it
}

// NewThreadKey returns the key of a thread to come: see [data.Store]. It does not wait for commits.
func (db *DB) NewThreadKey(ctx context.Context) (int64, error) {
	return db.commits.rows.Threads.Next(ctx, db.w.Pool)
}

// NewRunKey is NewThreadKey for a run.
func (db *DB) NewRunKey(ctx context.Context) (int64, error) {
	return db.commits.rows.Runs.Next(ctx, db.w.Pool)
}

// joins runs in the transaction in which an instance joins.
func (c *committer) joins(tx *sqldb.Tx) error {
	if !c.d.Single {
		return lists.ForgetReserved(tx)
	}
	return errors.Join(c.rows.Threads.Count(tx), c.rows.Runs.Count(tx))
}

// Commit writes batch n of the joined instance in one transaction: see [data.Store]. ctx should be one
// that is not cancelled when a client leaves.
func (db *DB) Commit(ctx context.Context, n int64, b *data.Batch) error {
	c := db.commits
	c.w.Session.Lock()
	defer c.w.Session.Unlock()
	if c.w.Instance() == "" {
		return errors.New("commit before Join")
	}
	if err := ctx.Err(); err != nil { // the driver would notice it now and then
		return err
	}
	c.prepareDays(ctx)
	err := c.commit(ctx, n, b)
	if errors.Is(err, members.ErrCommitted) {
		err = c.w.Confirm(ctx)
	}
	return err
}

func (c *committer) commit(ctx context.Context, n int64, b *data.Batch) error {
	if alone := len(b.Rows) == 0 && len(b.Asks) == 0; alone && c.d.Single {
		return c.say(ctx, n, b.Events)
	} else if alone && len(b.Events) > 0 {
		return c.append(ctx, n, b.Events)
	}
	tx := c.rows.Begin()
	return tx.Done(c.w.Commit(ctx, n, func(of *sqldb.Tx, now time.Time) error {
		tx.Tx, tx.Now = of, now
		if err := c.apply(tx, b); err != nil {
			return err
		}
		return tx.Finish()
	}))
}

// apply writes a batch. Pending rows are written at the end of the transaction.
func (c *committer) apply(tx *rows.Tx, b *data.Batch) error {
	b.Deferred = nil
	tx.Events = append(make([]data.StoredEvent, 0, len(b.Events)+4*len(b.Asks)), b.Events...) // which decisions add to
	if err := tx.Put(b.Rows); err != nil {
		return err
	}
	if err := decide(tx, b); err != nil {
		return err
	}
	return tx.Delete(c.w.Instance())
}

// decide takes the decisions of a batch.
func decide(tx *rows.Tx, b *data.Batch) error {
	if len(b.Asks) == 0 {
		return nil
	}
	vs, err := tx.Views(b.Asks)
	if err != nil {
		return err
	}
	if err := tx.Flush(); err != nil { // decisions see it
		return err
	}
	if err := vs.Load(b.Asks); err != nil {
		return err
	}
	for i := range b.Asks {
		if vs.Defers(&b.Asks[i]) {
			b.Deferred = append(b.Deferred, i)
			continue
		}
		v := vs.Of(&b.Asks[i])
		follows := b.Decide(i, v)
		if err := follows.Refused; err != nil {
			if _, refused := errors.AsType[*data.Error](err); refused {
				continue
			}
			return err
		}
		vs.Keep(v)
		tx.Events = append(tx.Events, follows.Events...)
		if err := tx.Put(follows.Rows); err != nil {
			return err
		}
	}
	return nil
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

	selectSaid = `
SELECT 1 FROM events WHERE thread_key = ? AND last_event_id >= ? LIMIT 1`
)

// say commits a batch of events alone on SQLite. A retried batch was committed if its first event exists: only this instance writes, and
// events behind a thread's last span are never removed.
func (c *committer) say(ctx context.Context, n int64, events []data.StoredEvent) error {
	tx := c.rows.Begin()
	return tx.Done(c.w.CommitLight(ctx, n, func(of *sqldb.Tx) (bool, error) {
		if len(events) == 0 {
			return false, nil
		}
		said, err := sqldb.All(ctx, of, sqldb.Scalar[int], selectSaid, events[0].ThreadKey, events[0].ID)
		return len(said) > 0, err
	}, func(of *sqldb.Tx, now time.Time) error {
		tx.Tx, tx.Now, tx.Events = of, now, slices.Clip(events)
		return tx.Finish()
	}))
}

// append commits events alone, in one statement.
func (c *committer) append(ctx context.Context, n int64, events []data.StoredEvent) error {
	defer c.rows.Packer.Done()
	packed, err := c.rows.Packer.Pack(events)
	if err != nil {
		return err
	}
	threads, firsts, lasts, runs, payloads := columns(packed)
	inserted, err := c.w.Session.Count(ctx, appendEvents, n, c.w.Lease(), c.w.Instance(), n-1, threads, firsts, lasts, runs, payloads)
	if err != nil || inserted > 0 {
		return err
	}
	return c.w.WhyNot(ctx, n)
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
