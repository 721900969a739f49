// Package admin copies, restores and shrinks the databases that lie in files.
package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/sqlite"
)

// wait bounds each wait for a transaction of a server.
const wait = 10 * time.Second

// LockHolder returns the address of the server that has the SQLite database, and whether there is one: see [sqlite.Holder].
func LockHolder(url string) (addr string, held bool, err error) {
	path, err := sqlite.Path(url)
	if err != nil {
		return "", false, err
	}
	return sqlite.Holder(path)
}

// Vacuum rewrites a SQLite database without free pages. It needs as much disk space as the data again, and fails with ErrLocked while
// a server serves the database. PostgreSQL vacuums by itself.
func Vacuum(ctx context.Context, url string) error {
	path, err := file(url, "PostgreSQL vacuums by itself")
	if err != nil {
		return err
	}
	lock, err := sqlite.Acquire(path, "")
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := sqlite.CheckWAL(path, true); err != nil {
		return err
	}
	if err := checkSchema(ctx, path); err != nil {
		return err
	}
	db, err := sqlite.Open(path, 1, wait)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range []string{"VACUUM", sqlite.MoveWAL} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("vacuum: %w", explained(err))
		}
	}
	return nil
}

// file returns the file of a database's URL, or an error with instead for a PostgreSQL database.
func file(url, instead string) (string, error) {
	if !strings.HasPrefix(url, "sqlite:") {
		return "", errors.New(instead)
	}
	return sqlite.Path(url)
}

// open opens a database to copy it.
func open(path string) (*sqlx.DB, error) {
	if err := sqlite.CheckWAL(path, false); err != nil {
		return nil, err
	}
	return sqlite.Open(path, 1, wait)
}

// checkSchema fails unless this Baton can serve the database, maybe after a migration.
func checkSchema(ctx context.Context, path string) error {
	db, err := storage.Open(ctx, storage.Config{URL: "sqlite:" + path})
	if errors.Is(err, storage.ErrOlderSchema) {
		return nil
	}
	if err != nil {
		return err
	}
	return db.Close()
}

// explained wraps err with the sentinel that it means.
func explained(err error) error {
	if sentinel := sqlite.Explain(err); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}
