package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/storage/storagetest"
)

func inspect(t *testing.T, url string) storage.Report {
	t.Helper()
	r, err := storage.Inspect(t.Context(), storage.Config{URL: url})
	if err != nil {
		t.Fatalf("%v of %+v", err, r)
	}
	return r
}

func TestInspectTellsOfASQLiteFile(t *testing.T) {
	t.Parallel()
	missing := "sqlite:" + filepath.Join(t.TempDir(), "baton.db")
	if r := inspect(t, missing); r.Exists || r.Wanted == 0 || r.Dir == "" {
		t.Errorf("of no file: %+v", r)
	}
	if _, err := os.Stat(strings.TrimPrefix(missing, "sqlite:")); err == nil {
		t.Error("looking has made a file")
	}
	url := "sqlite:" + sqlitetest.New(t)
	if r := inspect(t, url); !r.Exists || r.Schema != r.Wanted || r.Held || r.Size == 0 || !strings.HasPrefix(r.Software, "SQLite 3.") {
		t.Errorf("of a file: %+v", r)
	}
	db, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true, Addr: "127.0.0.1:1234"})
	must(t, err)
	defer db.Close()
	must(t, db.Registry.SetAddr("127.0.0.1:1234"))
	if r := inspect(t, url); !r.Held || r.Holder != "127.0.0.1:1234" || r.Schema != r.Wanted {
		t.Errorf("beside a server: %+v", r)
	}
	broken := filepath.Join(t.TempDir(), "broken.db")
	must(t, os.WriteFile(broken, []byte(strings.Repeat("no database ", 1000)), 0o600))
	if _, err := storage.Inspect(t.Context(), storage.Config{URL: "sqlite:" + broken}); err == nil {
		t.Error("a file that is no database is in order")
	}
	if _, err := storage.Inspect(t.Context(), storage.Config{URL: "sqlite:/no/such/directory/baton.db"}); err == nil || !strings.Contains(err.Error(), "there is no directory") {
		t.Errorf("of no directory: %v", err)
	}
}

// What a server that was killed has left is read with its WAL, and stays as it is.
func TestInspect_ReadsTheWALOfNoServer(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	db, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true})
	must(t, err)
	defer db.Close()
	dir := t.TempDir()
	copies := func(suffix string) {
		t.Helper()
		text, err := os.ReadFile(strings.TrimPrefix(url, "sqlite:") + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "baton.db"+suffix), text, 0o600)
		}
		must(t, err)
	}
	copies("")
	key := data.APIKey{ID: "key", User: "u", Role: "user", Projects: []string{"p"}, CreatedAt: time.Now()}
	must(t, db.Accounts.PutAPIKey(t.Context(), &key, nil))
	if r := inspect(t, "sqlite:"+filepath.Join(dir, "baton.db")); r.Keys {
		t.Error("the file has the key without its WAL")
	}
	copies("-wal")
	for range 2 {
		if r := inspect(t, "sqlite:"+filepath.Join(dir, "baton.db")); !r.Keys || r.WAL == 0 {
			t.Errorf("with the WAL: %+v", r)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 2 {
		t.Errorf("it left %v, %v", files, err)
	}
}

func TestInspectTellsOfAPostgresDatabase(t *testing.T) {
	t.Parallel()
	url := storagetest.Postgres(t).NewDatabase(t)
	if r := inspect(t, url); !r.Exists || r.Schema != 0 || !strings.HasPrefix(r.Software, "PostgreSQL ") || r.Skew.Abs() > time.Minute {
		t.Errorf("of an empty database: %+v", r)
	}
	must(t, storage.Migrate(t.Context(), storage.Config{URL: url}))
	if r := inspect(t, url); r.Schema != r.Wanted || len(r.Snapshots) > 0 { // its own is not old
		t.Errorf("of a database: %+v", r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if _, err := storage.Inspect(ctx, storage.Config{URL: "postgres://nobody:s3cret@127.0.0.1:1/none?sslmode=disable"}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("of nobody: %v", err)
	}
}
