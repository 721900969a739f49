//go:build !linux && !darwin

package cmd

// openFiles is not known here.
func openFiles() (n uint64, ok bool) { return 0, false }

// freeSpace is not known here.
func freeSpace(string) (n int64, ok bool) { return 0, false }
