package storage_test

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/storage/admin"
)

// Only the owner can read a database, its companions and copies.
func TestNobodyElseReadsDatabases(t *testing.T) {
	t.Parallel()
	if goruntime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	url := noSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	backup := filepath.Join(filepath.Dir(path), "backup.db")
	private := func(when string, want int) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		if err != nil || len(files) != want {
			t.Errorf("%s there are %v, %v, want %d files", when, files, err, want)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil || info.Mode() != 0o600 {
				t.Errorf("%s %s has the mode %v, %v", when, file, info.Mode(), err)
			}
		}
	}
	db := serve(t, url)
	private("beside a server", 4)
	must(t, admin.Backup(t.Context(), url, backup))
	private("with a backup", 5)
	closed(t, db)
	if err := os.Chmod(backup, 0o644); err != nil { // as after a copy by hand
		t.Fatal(err)
	}
	kept, err := admin.Restore(t.Context(), url, backup, false)
	if err != nil || kept == "" {
		t.Fatal(kept, err)
	}
	must(t, os.Remove(backup))
	private("restored", 3)
}
