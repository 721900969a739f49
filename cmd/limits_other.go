//go:build !linux && !darwin

package cmd

// openFiles is not implemented for this system.
func openFiles() (n uint64, ok bool) { return 0, false }

// freeSpace is not implemented for this system.
func freeSpace(string) (n int64, ok bool) { return 0, false }
