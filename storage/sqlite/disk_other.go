//go:build !linux

package sqlite

// Network cannot tell where a file is.
func Network(string) string { return "" }
