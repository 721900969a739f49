// Package sqlite is the file of a SQLite database: its name, its lock, the WAL beside it, connections to it and what its errors mean. It
// knows no table.
package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/batonrun/baton/runtime/data"
)

// Path returns the file of a sqlite: URL without symbolic links, because the companions of the file lie beside it
// and not beside a link. The file need not exist, but its directory must.
func Path(rawURL string) (string, error) {
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

// Open opens a number of connections to the database at path, with pragmas beside those for all connections. wait bounds each wait for
// another transaction. It fails with data.ErrSchema when there is no file.
func Open(path string, conns int, wait time.Duration, pragmas ...string) (*sqlx.DB, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no file %s", data.ErrSchema, path)
	}
	db, err := sqlx.Open("sqlite", DSN(path, wait, pragmas...))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// DSN returns the driver's name of such a database.
func DSN(path string, wait time.Duration, pragmas ...string) string {
	query := url.Values{
		"mode": {"rw"}, "_time_integer_format": {"unix_milli"},
		"_pragma": append([]string{fmt.Sprintf("busy_timeout(%d)", wait.Milliseconds()), "temp_store(MEMORY)"}, pragmas...),
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
}

// Create creates an empty file that only its owner can read, unless the file exists. It does not open an existing
// file, because closing it would release the locks of a server in this process.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// Explain returns the sentinel of model that an error means, or nil. It classifies an error that is not about the statement or its
// data as temporary: an unreadable file is not the fault of the current run.
func Explain(err error) error {
	var se *sqlite.Error
	if !errors.As(err, &se) {
		return nil
	}
	switch se.Code() {
	case sqlite3.SQLITE_IOERR_SHMSIZE: // the -shm file has no room
		return data.ErrDiskFull
	case sqlite3.SQLITE_READONLY_DBMOVED:
		return data.ErrMissing
	}
	switch se.Code() & 0xff { // the rest is the extended code
	case sqlite3.SQLITE_FULL:
		return data.ErrDiskFull
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return data.ErrTooSlow
	case sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM:
		return data.ErrUnavailable
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return data.ErrDenied
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return data.ErrDamaged
	}
	return nil
}

// IsUndefinedTable reports whether a statement has named a table that is not there.
func IsUndefinedTable(err error) bool {
	var se *sqlite.Error
	return errors.As(err, &se) && strings.Contains(se.Error(), "no such table")
}
