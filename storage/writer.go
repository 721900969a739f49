package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/sqlite"
)

// writer writes in transactions, one at a time, on a connection of its own.
type writer struct {
	cfg  Config
	d    *dialect
	lock *sqlite.Lock // nil unless cfg.Serve on SQLite

	mu       sync.Mutex // guards the fields below, and with them writing
	write    *sqlx.DB
	session  *session // nil until needed, and after it broke
	instance string   // "" until Join
	closed   bool
}

// beside reads, and writes beside the commits.
type beside struct {
	*writer
	read *pool
}

// SetAddr writes the address of this server into the lock of a SQLite database.
func (w *writer) SetAddr(addr string) error {
	return w.lock.SetAddr(addr)
}

// lease is how long a lease lasts, in milliseconds.
func (w *writer) lease() int64 { return w.cfg.Lease.Milliseconds() }

// connect returns the session, opening one when there is none. The caller holds mu.
func (w *writer) connect(ctx context.Context) (*session, error) {
	if w.session == nil {
		conn, err := w.write.Connx(ctx)
		if err != nil { // whatever keeps a connection from being opened says nothing of the data
			err = w.d.explained(ctx, err)
			if ctx.Err() == nil && !w.closed && !errors.Is(err, data.ErrDiskFull) && !errors.Is(err, data.ErrUnavailable) {
				err = fmt.Errorf("%w: %w", data.ErrUnavailable, err)
			}
			return nil, err
		}
		w.session = &session{
			conn: conn, d: w.d, stmts: make(map[inForm]prepared), types: make(map[string][]uint32),
			parts: make(map[string]batchPart), batches: make(map[string]string),
		}
		if w.d.single {
			w.session.own = &direct{stmts: make(map[forRows]driver.Stmt)}
		}
	}
	if w.session.of != w.instance && !w.d.single {
		if err := w.session.exec(ctx, "SET application_name = "+w.d.quote(sessionName(w.instance))); err != nil {
			return nil, w.broken(ctx, err)
		}
		w.session.of = w.instance
	}
	return w.session, nil
}

// drop closes the session and its connection, on which there may be anything. The caller holds mu.
func (w *writer) drop() {
	if w.session == nil {
		return
	}
	if w.d.single { // SQLite keeps a connection open that has a statement left, and with it the WAL
		for _, stmt := range w.session.stmts {
			_ = stmt.Close()
		}
		w.session.own.close()
	}
	// database/sql closes a connection of which its user says that it is bad.
	_ = w.session.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.session.conn.Close()
	w.session = nil
}

// exec runs statements without parameters, each in a transaction of its own. The caller holds mu.
func (w *writer) exec(ctx context.Context, statements ...string) error {
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

// broken returns a failure of the session as the caller is to see it, and gives up its connection when that
// may be in an unknown state.
func (w *writer) broken(ctx context.Context, err error) error {
	err = w.d.explained(ctx, err)
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

// transact runs fn in a transaction and commits it, or rolls back when fn or one of its statements failed.
// The caller holds mu.
func (w *writer) transact(ctx context.Context, fn func(*tx) error) error {
	return w.transactFrom(ctx, (*tx).begin, fn)
}

// transactFrom is transact for a transaction that begin begins.
func (w *writer) transactFrom(ctx context.Context, begin, fn func(*tx) error) error {
	session, err := w.connect(ctx)
	if err != nil {
		return err
	}
	tx := &tx{ctx: ctx, begun: time.Now(), w: w, d: w.d, session: session}
	done := false
	defer func() { // also when fn panics
		if !done && (session.exec(context.WithoutCancel(ctx), "ROLLBACK") != nil || lost(tx.err)) {
			w.drop()
		}
	}()
	if err := begin(tx); err != nil {
		return tx.failed(ctx, err)
	}
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.renew(); err != nil {
		return err
	}
	if err := tx.exec("COMMIT"); err != nil {
		return err
	}
	done = true
	return nil
}

// aside runs fn in a transaction beside the commits. It fails with ErrFenced on an instance that was fenced, and with
// janitor.ErrNotNow as a part of a duty that another instance has.
func (w *writer) aside(ctx context.Context, fn func(*tx) error) error {
	return w.asInstance(ctx, func(tx *tx) error {
		if err := tx.holdDuty(); err != nil {
			return err
		}
		return fn(tx)
	})
}

// asInstance is aside, whatever the duties.
func (w *writer) asInstance(ctx context.Context, fn func(*tx) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transact(ctx, func(tx *tx) error {
		if w.instance != "" {
			if _, err := one(ctx, tx, scalar[string], lockInstance, w.instance); errors.Is(err, data.ErrNotFound) {
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
	err = w.aside(ctx, func(tx *tx) (err error) {
		n, err = tx.count(query, args...)
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

// session is the connection that writes, with the statements prepared on it. Its transactions are begun and
// ended by statements too: with an sql.Tx on the same sql.Conn, database/sql locks itself up when the
// connection breaks under a statement of the latter.
type session struct {
	conn  *sqlx.Conn
	d     *dialect
	stmts map[inForm]prepared
	own   *direct             // statements that write to SQLite; nil on PostgreSQL
	types map[string][]uint32 // of the parameters of queries for many rows
	opens bool                // the statement with which its transactions begin is prepared: see opening
	of    string              // the instance that its name has; another ends the sessions of one that has died

	parts   map[string]batchPart
	batches map[string]string // by the numbers of their parts
}

// inForm is a query in one of its forms.
type inForm struct {
	query string
	form  form
}

// prepared is a statement that its session closes.
type prepared struct{ *sql.Stmt }

// stmt returns the statement of query, prepared.
func (s *session) stmt(ctx context.Context, query string, f form) (prepared, error) {
	key := inForm{query, f}
	if stmt, ok := s.stmts[key]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, s.d.statement(query, f))
	if err != nil {
		return prepared{}, err
	}
	s.stmts[key] = prepared{stmt}
	return prepared{stmt}, nil
}

// columns returns rows as an array for each parameter of the query.
func (s *session) columns(query string, rows [][]any) []any {
	types, ok := s.types[query]
	if !ok {
		types = typesOf(query)
		s.types[query] = types
	}
	arrays, columns := make([]any, len(types)), make([]cells, len(types))
	for at, oid := range types {
		columns[at] = cells{rows, at, oid}
		arrays[at] = &columns[at]
	}
	return arrays
}

// run carries a statement out, and returns how many rows it has changed.
func (s *session) run(ctx context.Context, query string, args []any) (int, error) {
	if s.own != nil {
		changed, err := s.own.run(ctx, s, query, args)
		return int(changed), err
	}
	stmt, err := s.stmt(ctx, query, plain)
	if err != nil {
		return 0, err
	}
	res, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	changed, err := res.RowsAffected()
	return int(changed), err
}

// exec runs a statement that has no parameters.
func (s *session) exec(ctx context.Context, statement string) error {
	_, err := s.conn.ExecContext(ctx, statement)
	return err
}

const (
	waitASecond = `
PRAGMA busy_timeout = 1000`

	selectMark = `
PRAGMA user_version`
)

// mark writes this server's marks after moving the old WAL into the database. The caller holds mu.
func (w *writer) mark(ctx context.Context, read *pool) error {
	if err := w.exec(ctx, sqlite.MoveWAL); err != nil {
		return err
	}
	found, err := one(ctx, read, scalar[int32], selectMark)
	if err != nil {
		return err
	}
	return w.exec(ctx, fmt.Sprintf(sqlite.SetMark, found+1), fmt.Sprintf(sqlite.SetMark, sqlite.NewMark()))
}

// leaveNoWAL moves all of the WAL into the database, so that a copy of the one file is a copy of everything. The last
// connection that is closed removes the WAL then. The caller holds mu.
func (w *writer) leaveNoWAL() {
	if !w.d.single || w.session == nil {
		return
	}
	if err := w.exec(context.Background(), waitASecond, sqlite.MoveWAL); err != nil { // a long read must not delay the server's end
		w.cfg.Log.Warn("the WAL could not be moved into the database", "error", err)
	}
}
