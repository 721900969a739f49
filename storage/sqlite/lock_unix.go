//go:build unix

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
)

// tryLock locks f unless it is locked.
func tryLock(f *os.File, how int) (bool, error) {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
