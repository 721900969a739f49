//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CheckAccess fails if this process may not read and write a database, the files beside it, or their directory.
func CheckAccess(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for _, name := range []string{filepath.Dir(path), path, path + "-wal", path + "-shm", lockPath(path)} {
		err := unix.Faccessat(unix.AT_FDCWD, name, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "write", Path: name, Err: err}
		}
	}
	return nil
}
