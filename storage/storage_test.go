package storage_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/sqlitetest"
	"github.com/batonrun/baton/storage/storagetest"
)

// databases opens a new database of each kind.
var databases = map[string]func(testing.TB) *storage.DB{
	"sqlite": func(tb testing.TB) *storage.DB {
		tb.Helper()
		return open(tb, newSQLite(tb))
	},
	"postgres": func(tb testing.TB) *storage.DB {
		tb.Helper()
		return open(tb, postgrestest.New(tb))
	},
}

func newSQLite(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + sqlitetest.New(tb)
}

// noSQLite is the URL of a file that is not there.
func noSQLite(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + filepath.Join(tb.TempDir(), "baton.db")
}

func open(tb testing.TB, url string) *storage.DB {
	tb.Helper()
	db, err := storage.Open(tb.Context(), storage.Config{URL: url, Serve: true, Migrate: true, Lease: time.Minute}) // a busy machine may take long for a statement
	must(tb, err)
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func joined(tb testing.TB, db *storage.DB) data.Store {
	tb.Helper()
	must(tb, db.Members().Join(tb.Context(), "instance", "127.0.0.1:1"))
	return db
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storagetest.Run(t, func(t *testing.T) data.Store { return open(t) })
		})
	}
}

func TestTwoWriters(t *testing.T) {
	t.Parallel()
	storagetest.RunTwoWriters(t, func(t *testing.T) (x, y data.Store, midnight func()) {
		url := postgrestest.New(t)
		beside := func() data.Store {
			db, err := storage.Open(t.Context(), storage.Config{URL: url, Lease: time.Minute})
			must(t, err)
			t.Cleanup(func() { _ = db.Close() })
			return db
		}
		return beside(), beside(), func() {
			connect(t, url).MustExecContext(t.Context(), `
CREATE TABLE yesterday PARTITION OF events FOR VALUES FROM (date_trunc('day', now(), 'UTC') - interval '1 day') TO (date_trunc('day', now(), 'UTC'));
UPDATE events SET committed_at = committed_at - interval '1 day'`)
		}
	})
}
