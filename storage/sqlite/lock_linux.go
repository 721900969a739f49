package sqlite

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockDatabase locks a byte far behind those that SQLite locks, and reports whether it was free. The lock belongs to
// the open file, not the process. Without such locks only the lock file counts.
func lockDatabase(f *os.File) bool {
	const ofdSetlk = 37 // F_OFD_SETLK
	byteLock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 1 << 40, Len: 1}
	err := syscall.FcntlFlock(f.Fd(), ofdSetlk, &byteLock)
	return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES)
}
