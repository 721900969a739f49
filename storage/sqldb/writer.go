package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"

	"github.com/batonrun/baton/runtime/data"
)

// Writer writes in transactions, one at a time, in a session of its own. A caller of its methods holds its lock.
type Writer struct {
	Pool *Pool // the session's connection, and others for small writes beside it, which do not need the lock

	sync.Mutex        // guards the fields below
	Name       string // of its sessions on PostgreSQL

	session *session // nil until needed, and after it broke
	closed  bool
}

// connect returns the session, opening one when there is none.
func (w *Writer) connect(ctx context.Context) (*session, error) {
	db := w.Pool.DB
	if w.session == nil {
		conn, err := w.Pool.SQL.Connx(ctx)
		if err != nil { // whatever keeps a connection from being opened says nothing of the data
			err = db.explained(ctx, err)
			if ctx.Err() == nil && !w.closed && !errors.Is(err, data.ErrDiskFull) && !errors.Is(err, data.ErrUnavailable) {
				err = fmt.Errorf("%w: %w", data.ErrUnavailable, err)
			}
			return nil, err
		}
		w.session = &session{
			conn: conn, db: db, stmts: make(map[inForm]prepared), types: make(map[string][]uint32),
			parts: make(map[string]batchPart), batches: make(map[string]string),
		}
		if db.Single {
			w.session.own = &direct{stmts: make(map[forRows]driver.Stmt)}
		}
	}
	if w.session.name != w.Name && !db.Single {
		if err := w.session.exec(ctx, "SET application_name = "+db.quote(w.Name)); err != nil {
			return nil, w.broken(ctx, err)
		}
		w.session.name = w.Name
	}
	return w.session, nil
}

// drop closes the session and its connection, on which there may be anything.
func (w *Writer) drop() {
	if w.session == nil {
		return
	}
	if own := w.session.own; own != nil { // SQLite keeps a connection open that has a statement left, and with it the WAL
		for _, stmt := range w.session.stmts {
			_ = stmt.Close()
		}
		own.close()
	}
	// database/sql closes a connection of which its user says that it is bad.
	_ = w.session.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.session.conn.Close()
	w.session = nil
}

// Connected reports whether there is a session.
func (w *Writer) Connected() bool { return w.session != nil }

// Closed reports whether Close was called.
func (w *Writer) Closed() bool { return w.closed }

// Close closes the session, and all connections of the Pool.
func (w *Writer) Close() error {
	w.closed = true
	w.drop()
	if w.Pool == nil {
		return nil
	}
	return w.Pool.Close()
}

// Exec runs statements without parameters, each in a transaction of its own.
func (w *Writer) Exec(ctx context.Context, statements ...string) error {
	session, err := w.connect(ctx)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := session.exec(ctx, statement); err != nil {
			return w.broken(ctx, err)
		}
	}
	return nil
}

// Count runs a statement in a transaction of its own, and returns how many rows it has changed.
func (w *Writer) Count(ctx context.Context, query string, args ...any) (int64, error) {
	session, err := w.connect(ctx)
	if err != nil {
		return 0, err
	}
	stmt, err := session.stmt(ctx, query, plain)
	if err != nil {
		return 0, w.broken(ctx, err)
	}
	res, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, w.broken(ctx, err)
	}
	return res.RowsAffected()
}

// broken returns a failure of the session as the caller is to see it, and gives up its connection when that
// may be in an unknown state.
func (w *Writer) broken(ctx context.Context, err error) error {
	err = w.Pool.DB.explained(ctx, err)
	if lost(err) {
		w.drop()
	}
	return err
}

// lost reports whether a connection is not to be used again after err.
func lost(err error) bool {
	return errors.Is(err, data.ErrUnavailable) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}

// Transact runs fn in a transaction and commits it, or rolls back when fn or one of its statements failed.
func (w *Writer) Transact(ctx context.Context, fn func(*Tx) error) error {
	return w.TransactOpening(ctx, func(tx *Tx) error {
		if err := tx.Exec(tx.DB.begin); err != nil {
			return err
		}
		return fn(tx)
	})
}

// TransactOpening is Transact for a transaction that fn begins: see [Tx.Opening].
func (w *Writer) TransactOpening(ctx context.Context, fn func(*Tx) error) error {
	session, err := w.connect(ctx)
	if err != nil {
		return err
	}
	tx := &Tx{ctx: ctx, DB: w.Pool.DB, session: session}
	done := false
	defer func() { // also when fn panics
		if !done && (session.exec(context.WithoutCancel(ctx), "ROLLBACK") != nil || lost(tx.err)) {
			w.drop()
		}
	}()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Exec("COMMIT"); err != nil {
		return err
	}
	done = true
	return nil
}
