package members

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

const (
	advanceInstance = `
UPDATE instances SET commit_no = ?, leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced AND commit_no = ?
RETURNING clock_timestamp()`

	// mayWrite checks the fence on SQLite, where a transaction locks the whole database.
	mayWrite = `
SELECT clock_timestamp() FROM instances WHERE id = ? AND NOT fenced AND commit_no = ?`

	renewInstance = `
UPDATE instances SET leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced AND commit_no = ?`

	// keepLease is renewInstance without a batch number.
	keepLease = `
UPDATE instances SET leased_until = clock_timestamp() + ? * interval '1 millisecond'
WHERE id = ? AND NOT fenced`

	// lockInstance finds the instance if it may write, and keeps others from fencing it.
	lockInstance = `
SELECT id FROM instances WHERE id = ? AND NOT fenced FOR UPDATE`

	// holdDuty keeps others from taking the duty until the transaction ends.
	holdDuty = `
SELECT 1 FROM duties WHERE name = ? AND instance = ? FOR SHARE`

	selectInstance = `
SELECT id, addr, fenced, ended, commit_no, leased_until FROM instances WHERE id = ?`
)

// ErrCommitted says that an earlier attempt has committed the batch.
var ErrCommitted = errors.New("committed before")

// Writer writes as the joined instance, one transaction at a time. A caller of its methods but Aside holds the lock of its Session.
type Writer struct {
	Session *sqldb.Writer // its lock guards the fields below

	cfg      Config
	file     *sqlite.Lock // nil unless this is the server of a SQLite database
	instance string       // "" until it has joined
	at       progress
}

// NewWriter returns a Writer in a session.
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

// holdDuty fails with janitor.ErrNotNow if the context is that of a duty that another instance has.
func (w *Writer) holdDuty(tx *sqldb.Tx) error {
	name := janitor.Name(tx.Context())
	if name == "" || tx.DB.Single || w.instance == "" {
		return nil
	}
	_, err := sqldb.One(tx.Context(), tx, sqldb.Scalar[int], holdDuty, name, w.instance)
	if errors.Is(err, data.ErrNotFound) {
		return fmt.Errorf("another server has the duty: %w", janitor.ErrNotNow)
	}
	return err
}

// progress is the joined instance's position. On PostgreSQL the instance's row has it.
type progress struct {
	last  int64 // the last batch that was committed
	row   int64 // last batch in the instance's row
	doubt int64 // a batch that leaves the row alone and was tried

	rowAt time.Time // when a batch was last written to the row; zero once the row shows that the instance has outlived that batch
}

// Commit runs fn in the transaction of batch n, at the database's time. It moves the instance's commit number to n, or says why that must not
// be: ErrCommitted if an earlier attempt has done so.
func (w *Writer) Commit(ctx context.Context, n int64, fn func(tx *sqldb.Tx, now time.Time) error) error {
	if err := w.follows(n); err != nil {
		return err
	}
	err := w.Session.TransactOpening(ctx, w.renewing(func(tx *sqldb.Tx) error {
		now, err := sqldb.One(ctx, tx.Opening(), sqldb.Scalar[time.Time], advanceInstance, n, w.Lease(), w.instance, w.before(n))
		if errors.Is(err, data.ErrNotFound) {
			return w.whyNot(tx, n)
		}
		if err != nil {
			return err
		}
		return fn(tx, now)
	}))
	if err == nil || errors.Is(err, ErrCommitted) {
		w.at.last, w.at.row, w.at.rowAt = n, n, time.Now()
	}
	return err
}

// CommitLight is Commit on SQLite that leaves the instance's row alone, which would be another page for each token. After an attempt said finds
// out whether that has committed the batch.
func (w *Writer) CommitLight(ctx context.Context, n int64, said func(*sqldb.Tx) (bool, error), fn func(tx *sqldb.Tx, now time.Time) error) error {
	if err := w.follows(n); err != nil {
		return err
	}
	tried, outlives := w.at.doubt == n, w.outlives()
	w.at.doubt = n
	err := w.Transact(ctx, func(tx *sqldb.Tx) error {
		if tried {
			if done, err := said(tx); err != nil || done {
				return cmp.Or(err, ErrCommitted)
			}
		}
		now, err := sqldb.One(ctx, tx, sqldb.Scalar[time.Time], mayWrite, w.instance, w.at.row)
		if errors.Is(err, data.ErrNotFound) {
			in, err := readInstance(ctx, tx, w.instance)
			return in.mayFollow(w.at.row, err)
		}
		if err == nil && outlives {
			err = tx.Exec(keepLease, w.Lease(), w.instance)
		}
		if err != nil {
			return err
		}
		return fn(tx, now)
	})
	if err == nil || errors.Is(err, ErrCommitted) {
		w.at.last = n
	}
	if outlives {
		return w.outlived(err)
	}
	return err
}

// WhyNot says why the instance could not advance to n. It is for a statement on PostgreSQL that is a whole commit.
func (w *Writer) WhyNot(ctx context.Context, n int64) error {
	return w.Transact(ctx, func(tx *sqldb.Tx) error { return w.whyNot(tx, n) })
}

func (w *Writer) whyNot(tx *sqldb.Tx, n int64) error {
	in, err := readInstance(tx.Context(), tx, w.instance)
	if err == nil && in.commit == n {
		return ErrCommitted
	}
	return in.mayFollow(w.before(n), err)
}

// Confirm writes after a batch that was committed with an unknown result. A COMMIT that waited for a synchronous standby when its
// session ended can be read, but is on no standby; a write behind it is not acknowledged before it is there.
func (w *Writer) Confirm(ctx context.Context) error {
	if w.cfg.DB.Single {
		return nil
	}
	return w.keepLease(ctx)
}

func (w *Writer) keepLease(ctx context.Context) error {
	return w.Transact(ctx, func(tx *sqldb.Tx) error { return tx.Exec(keepLease, w.Lease(), w.instance) })
}

// outlives reports whether the joined instance has to write once that it lives, a second after its last batch. So on SQLite, too, its row
// shows which claims it has outlived by a second, and an idle server writes nothing.
func (w *Writer) outlives() bool {
	return !w.at.rowAt.IsZero() && time.Since(w.at.rowAt) >= time.Second
}

// outlived notes that the instance has written that it lives, unless err.
func (w *Writer) outlived(err error) error {
	if err == nil {
		w.at.rowAt = time.Time{}
	}
	return err
}

// follows fails unless batch n may follow the last one, on SQLite. On PostgreSQL the batch finds out.
func (w *Writer) follows(n int64) error {
	if !w.cfg.DB.Single {
		return nil
	}
	if err := w.file.Check(); err != nil {
		return err
	}
	switch n {
	case w.at.last:
		return ErrCommitted
	case w.at.last + 1:
		return nil
	}
	return outOfStep(w.at.last, n-1)
}

// before is the commit number that the instance's row has before batch n.
func (w *Writer) before(n int64) int64 {
	if w.cfg.DB.Single {
		return w.at.row
	}
	return n - 1
}

// instance is an instance's row. Its SeenAt is the end of its lease.
type instance struct {
	data.Instance
	fenced bool
	commit int64
}

func readInstance(ctx context.Context, q sqldb.Querier, id string) (instance, error) {
	return sqldb.One(ctx, q, func(rows *sql.Rows) (in instance, err error) {
		return sqldb.Scan(rows, &in, &in.ID, &in.Addr, &in.fenced, &in.End, &in.commit, sqldb.Into(&in.SeenAt))
	}, selectInstance, id)
}

// mayFollow returns an error if batch n cannot follow the instance's last one. Err is the error of reading the
// instance.
func (in *instance) mayFollow(n int64, err error) error {
	switch {
	case errors.Is(err, data.ErrNotFound):
		return fmt.Errorf("%w: it is unknown to the database", data.ErrFenced)
	case err != nil:
		return err
	case in.End == data.EndCrashed:
		return fmt.Errorf("%w: it was taken for dead, or silent for longer than its lease lasts", data.ErrFenced)
	case in.fenced:
		return data.ErrFenced
	case in.commit != n:
		return outOfStep(in.commit, n)
	}
	return nil
}

func outOfStep(got, want int64) error {
	return fmt.Errorf("%w: the last commit that the database has is %d and not %d: it has gone back in time, or is another",
		data.ErrFenced, got, want)
}
