package storage

import (
	"context"
	"errors"
	"fmt"

	"github.com/batonrun/baton/storage/sqldb"
	"github.com/batonrun/baton/storage/sqlite"
)

// lockFile locks the file of a SQLite database for a server, and checks its WAL for everyone. It refuses a file that must not be opened as it
// lies there.
func lockFile(cfg Config, d *sqldb.DB) (lock *sqlite.Lock, err error) {
	if !d.Single {
		return nil, nil
	}
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Serve {
		err = sqlite.CheckAccess(path)
		if err == nil && cfg.Migrate {
			err = sqlite.Create(path)
		}
		if err == nil {
			lock, err = sqlite.Acquire(path, cfg.Addr)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := sqlite.CheckWAL(path, cfg.Serve); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// warnOfNetwork warns of a file that is not on a disk of this machine.
func warnOfNetwork(cfg Config) {
	path, err := sqlite.Path(cfg.URL)
	if err != nil {
		return
	}
	if kind := sqlite.Network(path); kind != "" {
		cfg.Log.Warn("the database is on a network disk, whose locks may fail: two servers may damage it; use a local disk or PostgreSQL", "file", path, "disk", kind)
	}
}

const selectForeign = `
SELECT min(name) FROM sqlite_schema
WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
    AND NOT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_versions')`

// checkSQLite fails if the file is another program's.
func checkSQLite(ctx context.Context, q *sqldb.Pool) error {
	table, err := sqldb.One(ctx, q, sqldb.Scalar[*string], selectForeign)
	if err == nil && table != nil {
		err = fmt.Errorf("the file is the database of another program, which has a table %s; name another file, such as sqlite:baton.db", *table)
	}
	return err
}

// errPooled is the error of a connection through a pooler that Baton cannot use.
var errPooled = errors.New("a pooler between Baton and PostgreSQL does not keep its sessions; connect to PostgreSQL itself")

const selectSession = `
SELECT pg_backend_pid() AS pid, current_setting('default_transaction_read_only') = 'on' AS readonly`

// checkSessions fails if a pooler such as PgBouncer gives two sessions one connection, each transaction another, or does not pass their
// settings on: prepared statements, locks of sessions and time limits would be lost.
func checkSessions(ctx context.Context, writer, reader *sqldb.Pool) error {
	if reader.DB.Single {
		return nil
	}
	var writes, reads struct {
		PID      int64
		ReadOnly bool
	}
	err := writer.SQL.GetContext(ctx, &writes, selectSession)
	if err == nil {
		err = reader.SQL.GetContext(ctx, &reads, selectSession)
	}
	if err != nil {
		return fmt.Errorf("open a session: %w", reader.Failed(ctx, err))
	}
	if writes.PID == reads.PID || !reads.ReadOnly {
		return errPooled
	}
	return nil
}

const (
	waitASecond = `
PRAGMA busy_timeout = 1000`

	selectMark = `
PRAGMA user_version`
)

// mark writes this server's marks after moving the old WAL into the database. The caller holds the lock.
func mark(ctx context.Context, w *sqldb.Writer, read *sqldb.Pool) error {
	if err := w.Exec(ctx, sqlite.MoveWAL); err != nil {
		return err
	}
	found, err := sqldb.One(ctx, read, sqldb.Scalar[int32], selectMark)
	if err != nil {
		return err
	}
	return w.Exec(ctx, fmt.Sprintf(sqlite.SetMark, found+1), fmt.Sprintf(sqlite.SetMark, sqlite.NewMark()))
}

// leaveNoWAL moves all of the WAL into the database, so that a copy of the one file is a copy of everything. The last
// connection that is closed removes the WAL then. The caller holds the lock.
func (db *DB) leaveNoWAL() {
	if !db.d.Single || !db.w.Connected() {
		return
	}
	if err := db.w.Exec(context.Background(), waitASecond, sqlite.MoveWAL); err != nil { // a long read must not delay the server's end
		db.cfg.Log.Warn("the WAL could not be moved into the database", "error", err)
	}
}
