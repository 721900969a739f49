package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/storage/sqlite"
)

const copyInto = `
VACUUM INTO ?`

// Backup writes a copy of the SQLite database to the new file dest, as of one moment, also while a server
// writes on. It does not overwrite, and returns when the copy is on the disk. A PostgreSQL database it refuses:
// pg_dump does that.
func Backup(ctx context.Context, url, dest string) error {
	path, err := file(url, "a PostgreSQL database is backed up with pg_dump, or with a base backup and its WAL")
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("back up to %s: %w", dest, err)
	}
	db, err := open(path)
	if err != nil {
		return err
	}
	defer db.Close()
	// The copy appears under its name only when it is whole.
	part := dest + ".part"
	defer os.Remove(part)
	if err := copyDatabase(ctx, db, part); err != nil {
		return fmt.Errorf("back up to %s: %w", dest, err)
	}
	if err := os.Link(part, dest); err != nil { // unlike Rename it does not overwrite
		return err
	}
	return flushToDisk(filepath.Dir(dest))
}

// Restore replaces the SQLite database at url, which need not exist, by the copy in the file from, and syncs it to the
// disk. The file from stays. The old database is renamed to kept, unless discard is set. Restore fails with ErrLocked
// while a server has the database. It changes nothing if the copy is damaged or not a database that this Baton can
// serve.
func Restore(ctx context.Context, url, from string, discard bool) (kept string, err error) {
	path, err := file(url, "a PostgreSQL database is restored with pg_restore, or from a base backup and its WAL")
	if err != nil {
		return "", err
	}
	lock, err := sqlite.Acquire(path, "")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	part := path + ".restored"
	defer os.Remove(part)
	source, err := sqlite.Path("sqlite:" + from)
	if err != nil {
		return "", err
	}
	if err := copyChecked(ctx, source, part); err != nil {
		return "", fmt.Errorf("restore %s: %w", from, err)
	}
	if !discard {
		if kept, err = keep(path); err != nil {
			return "", err
		}
	}
	// Should this end in the middle, the next server finds another one's WAL and says so.
	if err := os.Rename(part, path); err != nil {
		return "", err
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return kept, flushToDisk(filepath.Dir(path))
}

// keep gives a database and its WAL a second name, and returns it: "" when there is none to keep.
func keep(path string) (string, error) {
	kept := path + "." + time.Now().UTC().Format("20060102T150405.000") + ".old"
	err := os.Link(path, kept)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := os.Link(path+"-wal", kept+"-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return kept, nil
}

// copyChecked copies the database in the file from to the file part, if it is whole and this program's.
func copyChecked(ctx context.Context, from, part string) error {
	if err := checkSchema(ctx, from); err != nil {
		return err
	}
	db, err := open(from)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqlite.CheckPages(ctx, db); err != nil {
		return err
	}
	return copyDatabase(ctx, db, part)
}

// copyDatabase copies a database to the file dest, with a mark of its own, and waits until it is on the disk.
func copyDatabase(ctx context.Context, db *sqlx.DB, dest string) error {
	if err := os.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sqlite.Create(dest); err != nil { // which SQLite would create for all to read
		return err
	}
	if _, err := db.ExecContext(ctx, copyInto, dest); err != nil {
		return explained(err)
	}
	copied, err := sqlite.Open(dest, 1, wait)
	if err != nil {
		return err
	}
	_, err = copied.ExecContext(ctx, fmt.Sprintf(sqlite.SetMark, sqlite.NewMark()))
	if err := errors.Join(err, copied.Close()); err != nil {
		return explained(err)
	}
	return flushToDisk(dest)
}

// flushToDisk waits until a file or a directory is on the disk.
func flushToDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
