package storage

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/eventlog"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/rows"
	"github.com/batonrun/baton/storage/sqldb"
)

const (
	sealAge    = time.Hour      // the minimum age of an event that is sealed
	sealIdle   = 24 * time.Hour // a thread without a write for so long is sealed to its end
	minSegment = 256            // events of a thread that is not idle
	maxSegment = 1024           // events, more or less
	maxPlain   = 1 << 20        // bytes before compression, more or less
)

const (
	selectUnsealed = `
SELECT key, last_seq, sealed_to, updated_at FROM threads
WHERE last_seq > sealed_to AND key > ?
ORDER BY key
LIMIT 500`

	selectSealable = `
SELECT first_event_id, last_event_id, run_key, payload
FROM events
WHERE thread_key = ? AND last_event_id > ? AND last_event_id <= ? AND committed_at <= ?
ORDER BY last_event_id
LIMIT ?`

	countSealable = `
SELECT count(*) FROM events WHERE thread_key = ? AND last_event_id > ? AND last_event_id <= ?`

	lockUnsealed = `
SELECT sealed_to FROM threads WHERE key = ? FOR UPDATE`

	moveSealed = `
UPDATE threads SET sealed_to = ? WHERE key = ?`

	deleteSealable = `
DELETE FROM events WHERE thread_key = ? AND last_event_id > ? AND last_event_id <= ?`
)

// Seal moves events that are older than an hour into compressed segments: all of a thread without a write for a day, and of other
// threads as many as fill segments, up to the end of their last closed span.
// It returns how many events it has sealed. The space that becomes free is returned to the file system: on PostgreSQL the
// partitions of days of which all events are sealed are dropped, and a SQLite file shrinks. A thread that cannot be sealed is
// logged and tried again at the next call; the others are sealed all the same. Seal should be called every few minutes, and may
// be called by several instances. It blocks commits only while it replaces rows by a segment.
func (r Retention) Seal(ctx context.Context, now time.Time) (sealed int, err error) {
	sealed, err = r.sealThreads(ctx, now)
	if r.read.DB.Single {
		return sealed, errors.Join(err, r.shrink(ctx))
	}
	return sealed, errors.Join(err, r.dropDays(ctx)) // most of all when the disk is full
}

func (r Retention) sealThreads(ctx context.Context, now time.Time) (sealed int, err error) {
	for after := int64(0); ; {
		threads, err := sqldb.All(ctx, r.read, scanUnsealed, selectUnsealed, after)
		if err != nil || len(threads) == 0 {
			return sealed, err
		}
		for _, thread := range threads {
			n, err := r.sealThread(ctx, thread, now)
			sealed += n
			if err != nil {
				if r.hinders(ctx, err) {
					return sealed, fmt.Errorf("seal thread %d: %w", thread.key, err)
				}
				r.cfg.Log.Error("a thread was not sealed", "thread", thread.key, "error", err)
			}
			after = thread.key
			if err := janitor.Yield(ctx); err != nil {
				return sealed, err
			}
		}
	}
}

// hinders reports whether err is not the fault of one thread, and so would fail the next one too.
func (r Retention) hinders(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, data.ErrDiskFull) || errors.Is(err, data.ErrFenced) || r.cfg.checkSchema(ctx, r.read) != nil
}

// unsealed is a thread with events that are not sealed.
type unsealed struct {
	key       int64
	lastSeq   int64
	sealed    int64 // the last sealed event
	updatedAt time.Time
}

func scanUnsealed(rows *sql.Rows) (u unsealed, err error) {
	return sqldb.Scan(rows, &u, &u.key, &u.lastSeq, &u.sealed, sqldb.Into(&u.updatedAt))
}

func (r Retention) sealThread(ctx context.Context, u unsealed, now time.Time) (sealed int, err error) {
	idle := u.updatedAt.Before(now.Add(-sealIdle))
	for u.sealed < u.lastSeq && (idle || u.lastSeq-u.sealed >= minSegment) {
		rows, events, err := r.sealable(ctx, u, now.Add(-sealAge))
		if err != nil {
			return sealed, err
		}
		if events < minSegment && !idle {
			return sealed, nil
		}
		to := u.lastSeq // nothing left to seal: the rest was removed
		if len(rows) > 0 {
			to = rows[len(rows)-1].Last
		}
		if done, err := r.sealRows(ctx, u, to, rows); err != nil || !done {
			return sealed, err
		}
		sealed += events
		u.sealed = to
		if err := janitor.Yield(ctx); err != nil {
			return sealed, err
		}
	}
	return sealed, nil
}

// sealable reads the rows of the thread's next segment.
func (r Retention) sealable(ctx context.Context, u unsealed, before time.Time) (list []eventlog.Row, events int, err error) {
	size := 0
	list, err = sqldb.Some(ctx, r.read, func(sc *sql.Rows) (eventlog.Row, error) {
		row, err := rows.ScanEvents(sc)
		row.Thread = u.key
		return row, err
	}, func(row eventlog.Row) bool {
		events, size = events+int(row.Last-row.First+1), size+len(row.Payload)
		return events < maxSegment && size < maxPlain
	}, selectSealable, u.key, u.sealed, u.lastSeq, sqldb.Time(before), maxSegment)
	return list, events, err
}

// sealRows replaces a list of rows by a segment, and reports whether it did: meanwhile another instance may have sealed the rows, or some
// were deleted.
func (r Retention) sealRows(ctx context.Context, u unsealed, to int64, list []eventlog.Row) (done bool, err error) {
	var segment eventlog.Segment
	if len(list) > 0 {
		segment = r.codec.Segment(list)
	}
	err = r.w.Aside(ctx, func(tx *sqldb.Tx) error {
		sealed, err := sqldb.One(ctx, tx, sqldb.Scalar[int64], lockUnsealed, u.key)
		if errors.Is(err, data.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := sqldb.One(ctx, tx, sqldb.Scalar[int], countSealable, u.key, u.sealed, to)
		if err != nil || sealed != u.sealed || n != len(list) {
			return err
		}
		done = true
		if len(list) > 0 {
			if err := rows.InsertSegment(tx, &segment); err != nil {
				return err
			}
		}
		if err := tx.Exec(moveSealed, to, u.key); err != nil {
			return err
		}
		if !r.read.DB.Single {
			return nil // the rows are dropped with their partition
		}
		return tx.Exec(deleteSealable, u.key, u.sealed, to)
	})
	return done && err == nil, err
}

// A SQLite file does not shrink by itself: free pages wait for new rows. New files have incremental vacuum, which returns free pages to
// the file system a few at a time.

const (
	countPages = `
PRAGMA page_count`

	countFree = `
PRAGMA freelist_count`

	// shrinkStep moves a number of pages; commits wait for it.
	shrinkStep = `
PRAGMA incremental_vacuum(%[1]d)`

	moveWALGently = `
PRAGMA wal_checkpoint(PASSIVE)`
)

const (
	shrinkPages = 256
	spareFree   = 1024 // free pages that stay for new rows, beside a tenth of the file
)

// shrink returns free pages of a SQLite file to the file system.
func (r Retention) shrink(ctx context.Context) error {
	before := 0
	return members.InTurns(ctx, func() (more bool, err error) {
		pages, err := sqldb.One(ctx, r.read, sqldb.Scalar[int], countPages)
		if err != nil {
			return false, err
		}
		free, err := sqldb.One(ctx, r.read, sqldb.Scalar[int], countFree)
		if err != nil || free <= spareFree+pages/10 || free == before {
			return false, err
		}
		before = free
		if err := r.shrinkOnce(ctx); err != nil {
			return false, fmt.Errorf("shrink the database: %w", err)
		}
		return true, nil
	})
}

func (r Retention) shrinkOnce(ctx context.Context) error {
	r.w.Session.Lock()
	defer r.w.Session.Unlock()
	return r.w.Session.Exec(ctx, fmt.Sprintf(shrinkStep, shrinkPages), moveWALGently) // the file shrinks with the checkpoint
}
