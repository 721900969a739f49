// Package sqlitetest gives tests SQLite databases that need not be migrated any more, which takes longer than most tests: under
// the race detector a second of a core.
package sqlitetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/batonrun/baton/storage"
)

// New returns the path of an empty, migrated database, which goes with the test.
func New(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "baton.db")
	raw, err := File()
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// File returns the content of the file of an empty, migrated database. Do not change it: it is made once.
func File() ([]byte, error) { return file() }

var file = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "baton")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "baton.db")
	db, err := storage.Open(context.Background(), storage.Config{URL: "sqlite:" + path, Migrate: true})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})
