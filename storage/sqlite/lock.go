package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// ErrLocked means that another server has the database. The error is a *LockedError.
var ErrLocked = errors.New("another server has the database")

// LockedError names the server that has a SQLite database.
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

// Holder returns the address of the server that has the database, and whether there is one. It does not find a server that uses
// another hard link of the file.
func Holder(database string) (addr string, held bool, err error) {
	f, err := os.Open(lockPath(database))
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

// Lock is a server's lock of a database, which the kernel releases when the process ends. Its file has the holder's address and is never
// removed: otherwise two servers could lock two files of one name.
//
// A database with two hard links has two names and so two lock files. Therefore the database itself is locked too, if
// the system has a lock that does not conflict with SQLite's own. It stays open until SQLite has closed it, because
// closing a file drops all of the process's POSIX locks on it.
type Lock struct {
	f, database *os.File
	path        string      // of the database
	file        fs.FileInfo // of the database; nil if it did not exist
}

func lockPath(database string) string { return database + ".lock" }

// Acquire locks the database for a server. It fails with a *LockedError if another server has it.
func Acquire(database, addr string) (_ *Lock, err error) {
	path := lockPath(database)
	l := &Lock{path: database}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.unlock())
		}
	}()
	if err := Create(path); err != nil {
		return nil, err
	}
	if l.f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	// Holder takes the lock for a moment, which must not count as a server.
	for tries := 10; ; tries-- {
		locked, err := tryLock(l.f, exclusive)
		if err != nil {
			return nil, err
		}
		if locked {
			break
		}
		if tries == 0 {
			return nil, &LockedError{Path: path, Addr: readAddr(l.f)}
		}
		<-time.After(10 * time.Millisecond)
	}
	if l.database, err = os.OpenFile(database, os.O_RDWR, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if l.database != nil {
		if l.file, err = l.database.Stat(); err != nil {
			return nil, err
		}
		if !lockDatabase(l.database) {
			return nil, &LockedError{Path: database + ", under another name"}
		}
	}
	if err := l.f.Truncate(lockSize); err != nil && !isDiskFull(err) {
		return nil, err
	}
	return l, l.SetAddr(addr)
}

func readAddr(f *os.File) string {
	addr, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	line, _, _ := strings.Cut(string(addr), "\n")
	return strings.TrimSpace(line)
}

// SetAddr overwrites the server's address in the lock file, which needs no new space on a full disk. The first write may fail
// then; the address is optional. SetAddr of nil does nothing.
func (l *Lock) SetAddr(addr string) error {
	if l == nil {
		return nil
	}
	if _, err := l.f.WriteAt(fmt.Appendf(nil, "%-*s\n", lockSize-1, addr), 0); err != nil && !isDiskFull(err) {
		return err
	}
	return nil
}

// Check fails with data.ErrMissing if the database has been removed from its place, and with data.ErrFenced if another file is there: the
// next server would not see what is written. Check of nil does nothing.
func (l *Lock) Check() error {
	if l == nil || l.file == nil {
		return nil
	}
	switch there, err := os.Stat(l.path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s", data.ErrMissing, l.path)
	case err == nil && !os.SameFile(there, l.file):
		return fmt.Errorf("%w: another file has replaced %s", data.ErrFenced, l.path)
	}
	return nil
}

// Close releases the lock. It reserves space in the lock file for the next server: SQLite needs space for a -shm file
// to open a database, which a full disk does not have. Close of nil does nothing.
func (l *Lock) Close() error {
	if l == nil {
		return nil
	}
	err := l.SetAddr("")
	if l.database != nil {
		_, _ = l.f.WriteAt(make([]byte, spareRoom), lockSize) // as far as the disk allows
	}
	return errors.Join(err, l.unlock())
}

const (
	lockSize  = 65       // of a lock file with an address
	spareRoom = 64 << 10 // behind the address, while no server runs
)

func (l *Lock) unlock() error {
	var errs []error
	for _, f := range []*os.File{l.f, l.database} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
