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
// It does not find a server that has the file under another hard link. A PostgreSQL database has no such server.
func LockHolder(url string) (addr string, held bool, err error) {
	d, err := dialectOf(url)
	if err != nil || !d.single {
		return "", false, err
	}
	path, err := sqlitePath(url)
	if err != nil {
		return "", false, err
	}
	return lockHolder(path)
}

func lockHolder(database string) (addr string, held bool, err error) {
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

// fileLock is a lock that the kernel releases when the process ends, however it ends. The file holds the
// address of who has it, and stays: were it removed, two servers could lock two files of one name.
//
// A file with two hard links has two names and so two lock files, which is why the database is locked too, where
// the system has a lock for it that SQLite's own do not meet. The database stays open until SQLite has closed it:
// when a process closes a file once, all locks that SQLite has on it are gone.
type fileLock struct{ f, database *os.File }

func lockPath(database string) string { return database + ".lock" }

// takeLock locks the database for a server. It fails with a *LockedError when another has it.
func takeLock(database, addr string) (_ *fileLock, err error) {
	path := lockPath(database)
	l := new(fileLock)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.unlock())
		}
	}()
	if err := createFile(path); err != nil {
		return nil, err
	}
	if l.f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	// LockHolder has the lock for a moment while it looks, which must not be taken for a server.
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
	if l.database != nil && !lockDatabase(l.database) {
		return nil, &LockedError{Path: database + ", under another name"}
	}
	if err := l.f.Truncate(lockSize); err != nil && !isDiskFull(err) {
		return nil, err
	}
	return l, l.setAddr(addr)
}

func readAddr(f *os.File) string {
	addr, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
	line, _, _ := strings.Cut(string(addr), "\n")
	return strings.TrimSpace(line)
}

// setAddr writes the address into the lock, in the place of the last one, for which a full disk has room. For the first
// it may have none, and who is locked out needs no address.
func (l *fileLock) setAddr(addr string) error {
	if _, err := l.f.WriteAt(fmt.Appendf(nil, "%-*s\n", lockSize-1, addr), 0); err != nil && !isDiskFull(err) {
		return err
	}
	return nil
}

// Close releases the lock, and has its file keep the room that the next server needs: without a -shm file SQLite does not
// open a database, and a full disk has no room for a new one. It does nothing to none.
func (l *fileLock) Close() error {
	if l == nil {
		return nil
	}
	err := l.setAddr("")
	if l.database != nil {
		_, _ = l.f.WriteAt(make([]byte, spareRoom), lockSize) // as far as there is room
	}
	return errors.Join(err, l.unlock())
}

const (
	lockSize  = 65       // of a lock's file, with an address
	spareRoom = 64 << 10 // behind it, while nobody has the lock
)

func (l *fileLock) unlock() error {
	var errs []error
	for _, f := range []*os.File{l.f, l.database} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
