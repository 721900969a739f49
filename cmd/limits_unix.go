//go:build linux || darwin

package cmd

import "syscall"

// openFiles returns how many files this process may have open.
func openFiles() (n uint64, ok bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0, false
	}
	return l.Cur, true
}

// freeSpace returns the free bytes on the file system of a directory.
func freeSpace(dir string) (n int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // its type differs between systems
}
