package members

import (
	"context"
	"errors"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

// lockInstance finds the instance if it may write, and keeps others from fencing it.
const lockInstance = `
SELECT id FROM instances WHERE id = ? AND NOT fenced FOR UPDATE`

// Writer writes as the joined instance, one transaction at a time. A caller of its methods but Aside holds the lock of its Session.
type Writer struct {
	Session *sqldb.Writer // its lock guards the fields below

	cfg      Config
	file     *sqlite.Lock // nil unless this is the server of a SQLite database
	instance string       // "" until it has joined
	at       progress
}

// NewWriter returns what writes in a session.
func NewWriter(cfg Config, session *sqldb.Writer, file *sqlite.Lock) *Writer {
	return &Writer{Session: session, cfg: cfg, file: file}
}

// Instance is the joined instance, "" before it joins.
func (w *Writer) Instance() string { return w.instance }

// Lease is how long a lease lasts, in milliseconds.
func (w *Writer) Lease() int64 { return w.cfg.Lease.Milliseconds() }

// Transact runs fn in a transaction, whatever the fence.
func (w *Writer) Transact(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return w.Session.Transact(ctx, w.renewing(fn))
}

// renewing is fn, after which it renews the lease again if fn has used up much of it. Otherwise an instance that waits for the
// row's lock could find the lease expired.
func (w *Writer) renewing(fn func(*sqldb.Tx) error) func(*sqldb.Tx) error {
	return func(tx *sqldb.Tx) error {
		begun := time.Now()
		if err := fn(tx); err != nil || tx.DB.Single || time.Since(begun) < w.cfg.Lease/3 {
			return err
		}
		return tx.Exec(keepLease, w.Lease(), w.instance)
	}
}

// Aside runs fn in a transaction beside the commits. It fails with data.ErrFenced on an instance that was fenced, and with
// janitor.ErrNotNow as a part of a duty that another instance has.
func (w *Writer) Aside(ctx context.Context, fn func(*sqldb.Tx) error) error {
	return w.asInstance(ctx, func(tx *sqldb.Tx) error {
		if err := w.holdDuty(tx); err != nil {
			return err
		}
		return fn(tx)
	})
}

// asInstance is Aside, whatever the duties.
func (w *Writer) asInstance(ctx context.Context, fn func(*sqldb.Tx) error) error {
	w.Session.Lock()
	defer w.Session.Unlock()
	return w.Transact(ctx, func(tx *sqldb.Tx) error {
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
