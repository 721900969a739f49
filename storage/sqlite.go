package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/batonrun/baton/runtime/model"
)

// sqliteWords maps PostgreSQL's syntax to SQLite's. A writing transaction locks the whole database, so FOR UPDATE is
// unnecessary. SQLite would compile a statement again for each value of a LIMIT that is a bare parameter, because its
// plan could depend on it.
var sqliteWords = strings.NewReplacer(append(listWords,
	"clock_timestamp()", "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)",
	" FOR UPDATE", "",
	"LIMIT ?", "LIMIT +?",
	" * interval '1 millisecond'", "",
)...)

func sqliteDialect() *dialect {
	sqlx.BindDriver("sqlite", sqlx.QUESTION)
	return &dialect{
		name:       "sqlite",
		goose:      goose.DialectSQLite3,
		migrations: migrationsOf("sqlite"),
		bind:       sqlx.QUESTION,
		words:      sqliteWords,
		begin:      "BEGIN IMMEDIATE",
		beginRead:  "BEGIN DEFERRED",
		single:     true,
		message:    1 << 20, // beside the database's own copy
		open:       openSQLite,
		lock: func(cfg Config) (*fileLock, error) {
			path, err := sqlitePath(cfg.URL)
			if err != nil {
				return nil, err
			}
			if cfg.Migrate {
				if err := createFile(path); err != nil {
					return nil, err
				}
			}
			return takeLock(path, cfg.Addr)
		},
		check:   checkSQLite,
		list:    func(slice any) any { return jsonText(slice) },
		explain: explainSQLite,
	}
}

// sqlitePath returns the file of a sqlite: URL without symbolic links, because the companions of the file lie beside it
// and not beside a link. The file need not exist, but its directory must.
func sqlitePath(rawURL string) (string, error) {
	path := strings.TrimPrefix(rawURL, "sqlite:")
	if path == "" || strings.HasPrefix(path, ":") {
		return "", fmt.Errorf("database URL %q: must name a file, as in sqlite:baton.db", rawURL)
	}
	return realPath(path)
}

func realPath(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if target, err := os.Readlink(path); err == nil { // to a file that does not exist yet
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return realPath(target)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("database %s: there is no directory %s; create it, or correct the path", path, filepath.Dir(path))
	}
	return filepath.Join(dir, filepath.Base(path)), err
}

func openSQLite(cfg Config, m mode) (*sqlx.DB, error) {
	path, err := sqlitePath(cfg.URL)
	if err != nil {
		return nil, err
	}
	if m == migrating {
		if err := createFile(path); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s", ErrSchema, path)
	}
	db, err := sqlx.Open("sqlite", sqliteDSN(cfg, path, m))
	if err != nil {
		return nil, err
	}
	conns := 1
	if m == reading {
		conns = cfg.Readers
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

func sqliteDSN(cfg Config, path string, m mode) string {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", cfg.LockTimeout.Milliseconds()),
		"temp_store(MEMORY)",
	}
	query := url.Values{"mode": {"rw"}, "_time_integer_format": {"unix_milli"}}
	switch m {
	case reading:
		pragmas = append(pragmas, "query_only(1)", "cache_size(-4096)")
	case writing, migrating:
		if info, err := os.Stat(path); err == nil && info.Size() == 0 { // a new one; elsewhere it would write
			pragmas = append(pragmas, "auto_vacuum(2)")
		}
		pragmas = append(pragmas, "journal_mode(WAL)", "synchronous(FULL)", "journal_size_limit(67108864)",
			checkpointed, "cache_size(-32768)")
	}
	query["_pragma"] = pragmas
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// checkpointed is the number of WAL pages after which SQLite moves the WAL into the file. A checkpoint syncs the disk
// twice, and writes each changed page once; pages at the ends of tables change in each commit. That number of pages
// fits into one block of the WAL's index.
const checkpointed = "wal_autocheckpoint(4000)"

// createFile creates an empty file that only its owner can read, unless the file exists. It does not open an existing
// file, because closing it would release the locks of a server in this process.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// explainSQLite classifies an error that is not about the statement or its data as temporary: an unreadable file is not
// the fault of the current run.
func explainSQLite(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return nil
	}
	if se.Code() == sqlite3.SQLITE_IOERR_SHMSIZE { // the -shm file has no room
		return model.ErrDiskFull
	}
	switch se.Code() & 0xff { // the rest is the extended code
	case sqlite3.SQLITE_FULL:
		return model.ErrDiskFull
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return model.ErrTooSlow
	case sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM,
		sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return model.ErrUnavailable
	}
	return nil
}
