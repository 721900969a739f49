package storage

import (
	"context"
	"errors"
	"slices"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage/eventlog"
)

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
func (c *committer) say(ctx context.Context, n int64, events []model.StoredEvent) error {
	tried := c.at.doubt == n && len(events) > 0
	c.at.doubt = n
	return c.transactBatch(ctx, (*commitTx).begin, func(tx *commitTx) (err error) {
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
		if errors.Is(err, model.ErrNotFound) {
			in, err := readInstance(ctx, tx, c.instance)
			return in.mayFollow(c.at.row, err)
		}
		tx.events = slices.Clip(events)
		return err
	})
}

// append commits events alone, in one statement.
func (c *committer) append(ctx context.Context, n int64, events []model.StoredEvent) error {
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
