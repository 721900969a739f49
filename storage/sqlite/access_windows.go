package sqlite

// CheckAccess would find files that this process may not write. Opening them does.
func CheckAccess(string) error { return nil }
