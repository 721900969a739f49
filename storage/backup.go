package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup writes a copy of the SQLite database to the new file dest, as of one moment, also while a server
// writes on. It does not overwrite, and returns when the copy is on the disk. A PostgreSQL database it refuses:
// pg_dump does that.
func Backup(ctx context.Context, url, dest string) error {
	d, err := dialectOf(url)
	if err != nil {
		return err
	}
	if !d.single {
		return errors.New("a PostgreSQL database is backed up with pg_dump, or with a base backup and its WAL")
	}
	if _, err := os.Lstat(dest); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fs.ErrExist
		}
		return fmt.Errorf("back up to %s: %w", dest, err)
	}
	db, err := d.open(Config{URL: url}.withDefaults(), copying)
	if err != nil {
		return err
	}
	defer db.Close()
	// The copy appears under its name only when it is whole.
	part := dest + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer os.Remove(part)
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, part); err != nil {
		return fmt.Errorf("back up to %s: %w", dest, d.explained(ctx, err))
	}
	if err := flushToDisk(part); err != nil {
		return err
	}
	if err := os.Link(part, dest); err != nil { // unlike Rename it does not overwrite
		return err
	}
	return flushToDisk(filepath.Dir(dest))
}

// flushToDisk waits until a file or a directory is on the disk.
func flushToDisk(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
