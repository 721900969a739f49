package sqlite

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const (
	shared    = 0
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
)

// tryLock locks f unless it is locked. It locks a byte far behind the file's end, because other processes cannot read
// locked bytes.
func tryLock(f *os.File, how int) (bool, error) {
	at := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), uint32(how)|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

func isDiskFull(err error) bool { return errors.Is(err, windows.ERROR_DISK_FULL) }
