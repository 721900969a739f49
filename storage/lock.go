package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// ErrLocked means that another server has the database. The error is a *LockedError.
var ErrLocked = errors.New("another server has the database")

// LockedError says which server has a SQLite database.
type LockedError struct {
	Path string // of the lock
	Addr string // of the server; may be empty
}

func (e *LockedError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("%v (%s)", ErrLocked, e.Path)
	}
	return fmt.Sprintf("%v: it listens on %s (%s)", ErrLocked, e.Addr, e.Path)
}

// Is reports whether target is ErrLocked.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// LockHolder returns the address of the server that has the SQLite database, and whether one has it at all.
// A PostgreSQL database has no such server.
func LockHolder(url string) (addr string, held bool, err error) {
	d, err := dialectOf(url)
	if err != nil || !d.single {
		return "", false, err
	}
	path, err := sqlitePath(url)
	if err != nil {
		return "", false, err
	}
	f, err := os.Open(lockPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	free, err := tryLock(f, shared)
	if err != nil || free {
		return "", false, err
	}
	return readAddr(f), true, nil
}

// fileLock is a lock that the kernel releases when the process ends, however it ends. The file holds the
// address of who has it, and stays: were it removed, two servers could lock two files of one name.
type fileLock struct{ f *os.File }

func lockPath(database string) string { return database + ".lock" }

// takeLock locks the database for a server. It fails with a *LockedError when another has it.
func takeLock(database, addr string) (*fileLock, error) {
	path := lockPath(database)
	f, err := openLock(path)
	if err != nil {
		return nil, err
	}
	// LockHolder has the lock for a moment while it looks, which must not be taken for a server.
	for range 10 {
		locked, err := tryLock(f, exclusive)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if locked {
			l := &fileLock{f}
			return l, l.setAddr(addr)
		}
		<-time.After(10 * time.Millisecond)
	}
	err = &LockedError{Path: path, Addr: readAddr(f)}
	return nil, errors.Join(err, f.Close())
}

func openLock(path string) (*os.File, error) {
	if err := createFile(path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

func readAddr(f *os.File) string {
	addr, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	return strings.TrimSpace(string(addr))
}

func (l *fileLock) setAddr(addr string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(addr+"\n"), 0)
	return err
}

// Close releases the lock. It does nothing to none.
func (l *fileLock) Close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.f.Truncate(0), l.f.Close())
}
