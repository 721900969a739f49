package storage

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// lockDatabase locks one byte far behind those that SQLite locks, and reports whether nobody has it. The lock is the
// open file's, not the process's. Where there is no such lock the lock file alone has to do.
func lockDatabase(f *os.File) bool {
	const ofdSetlk = 37 // F_OFD_SETLK
	byteLock := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 1 << 40, Len: 1}
	err := syscall.FcntlFlock(f.Fd(), ofdSetlk, &byteLock)
	return !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES)
}
