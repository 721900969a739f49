package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

// writer writes as the joined instance, one transaction at a time.
type writer struct {
	cfg  Config
	d    *sqldb.DB
	lock *sqlite.Lock // nil unless cfg.Serve on SQLite

	w        sqldb.Writer // its lock guards the field below
	instance string       // "" until Join
}

// beside reads, and writes beside the commits.
type beside struct {
	*writer
	read *sqldb.Pool
}

// SetAddr writes the address of this server into the lock of a SQLite database.
func (w *writer) SetAddr(addr string) error {
	return w.lock.SetAddr(addr)
}

// lease is how long a lease lasts, in milliseconds.
func (w *writer) lease() int64 { return w.cfg.Lease.Milliseconds() }

// transact runs fn in a transaction. The caller holds the lock.
func (w *writer) transact(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return w.w.Transact(ctx, w.renewing(fn))
}

// renewing is fn, after which it renews the lease again if fn has used up much of it. Otherwise an instance that waits for the
// row's lock could find the lease expired.
func (w *writer) renewing(fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		begun := time.Now()
		if err := fn(tx); err != nil || tx.DB.Single || time.Since(begun) < w.cfg.Lease/3 {
			return err
		}
		return tx.Exec(keepLease, w.lease(), w.instance)
	}
}

// aside runs fn in a transaction beside the commits. It fails with ErrFenced on an instance that was fenced, and with
// janitor.ErrNotNow as a part of a duty that another instance has.
func (w *writer) aside(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return w.asInstance(ctx, func(tx *sqldb.Tx) error {
		if err := w.holdDuty(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// asInstance is aside, whatever the duties.
func (w *writer) asInstance(ctx context.Context, fn func(*sqldb.Tx) error) error {
	w.w.Lock()
	defer w.w.Unlock()
	return w.transact(ctx, func(tx *sqldb.Tx) error {
		if w.instance != "" {
			if _, err := sqldb.One(ctx, tx, sqldb.Scalar[string], lockInstance, w.instance); errors.Is(err, data.ErrNotFound) {
				return data.ErrFenced
			} else if err != nil {
				return err
			}
		}
		return fn(tx)
	})
}

// tidyRows is how many rows one transaction removes: commits and the lease wait for it.
const tidyRows = 200

// tidy runs a statement until it removes no more rows, and returns how many it has removed. The last parameter is a number of rows;
// each run is a transaction of its own, and commits continue in between.
func (w *writer) tidy(ctx context.Context, query string, args ...any) (removed int, err error) {
	err = inTurns(ctx, func() (bool, error) {
		n, err := w.tidySome(ctx, query, append(slices.Clip(args), tidyRows)...)
		removed += n
		return n == tidyRows, err
	})
	return removed, err
}

// tidySome runs a statement, and returns how many rows it has removed.
func (w *writer) tidySome(ctx context.Context, query string, args ...any) (n int, err error) {
	err = w.aside(ctx, func(tx *sqldb.Tx) (err error) {
		n, err = tx.Count(query, args...)
		return err
	})
	return n, err
}

// inTurns calls do until it has nothing more to do. In between others have their turns.
func inTurns(ctx context.Context, do func() (more bool, err error)) error {
	for {
		if more, err := do(); err != nil || !more {
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}

const (
	waitASecond = `
PRAGMA busy_timeout = 1000`

	selectMark = `
PRAGMA user_version`
)

// mark writes this server's marks after moving the old WAL into the database. The caller holds the lock.
func (w *writer) mark(ctx context.Context, read *sqldb.Pool) error {
	if err := w.w.Exec(ctx, sqlite.MoveWAL); err != nil {
		return err
	}
	found, err := sqldb.One(ctx, read, sqldb.Scalar[int32], selectMark)
	if err != nil {
		return err
	}
	return w.w.Exec(ctx, fmt.Sprintf(sqlite.SetMark, found+1), fmt.Sprintf(sqlite.SetMark, sqlite.NewMark()))
}

// leaveNoWAL moves all of the WAL into the database, so that a copy of the one file is a copy of everything. The last
// connection that is closed removes the WAL then. The caller holds the lock.
func (w *writer) leaveNoWAL() {
	if !w.d.Single || !w.w.Connected() {
		return
	}
	if err := w.w.Exec(context.Background(), waitASecond, sqlite.MoveWAL); err != nil { // a long read must not delay the server's end
		w.cfg.Log.Warn("the WAL could not be moved into the database", "error", err)
	}
}
