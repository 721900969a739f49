package storage_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
	"github.com/batonrun/baton/storage/storagetest"
)

func size(t *testing.T, url string) int64 {
	t.Helper()
	info, err := os.Stat(strings.TrimPrefix(url, "sqlite:"))
	must(t, err)
	return info.Size()
}

func TestSealedFileShrinks(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	db := open(t, url)
	_, want := history(t, joined(t, db), 10, 1, 15_000)
	before := size(t, url)
	seal(t, db, 72*time.Hour, 150_000)
	if after := size(t, url); after > before/3 {
		t.Errorf("the file has %d bytes before and %d after sealing", before, after)
	}
	for key, events := range want {
		sameLog(t, readLog(t, db, key, 500), events)
	}
}

// A rewritten file is small, and stays small after more events were written and sealed.
func TestVacuum_ShrinksFile(t *testing.T) {
	t.Parallel()
	for how, rewrite := range map[string]func(t *testing.T, url string) string{
		"vacuum": func(t *testing.T, url string) string {
			must(t, admin.Vacuum(t.Context(), url))
			return url
		},
		"backup": func(t *testing.T, url string) string {
			must(t, admin.Backup(t.Context(), url, strings.TrimPrefix(url, "sqlite:")+".copy"))
			return url + ".copy"
		},
	} {
		t.Run(how, func(t *testing.T) {
			url := newSQLite(t)
			db := serve(t, url)
			log, _ := history(t, joined(t, db), 10, 1, 8_000)
			seal(t, db, 72*time.Hour, 80_000)
			closed(t, db)
			before := size(t, url)
			url = rewrite(t, url)
			if after := size(t, url); after > before {
				t.Errorf("the file has %d bytes before and %d after", before, after)
			}
			db = serve(t, url)
			defer closed(t, db)
			must(t, db.Members().Join(t.Context(), "again", ""))
			log.db, log.n = db, 0
			small := size(t, url)
			for range 800 {
				log.commit(t, log.batch(100))
			}
			log.commit(t, nil, log.finishRuns(t)...)
			seal(t, db, 72*time.Hour, 80_000)
			if after := size(t, url); after > small+(8<<20) {
				t.Errorf("a file of %d bytes has %d after more was written and sealed", small, after)
			}
		})
	}
}

func TestVacuumLeavesServersAlone(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	open(t, url)
	if err := admin.Vacuum(t.Context(), url); err == nil || !strings.Contains(err.Error(), storage.ErrLocked.Error()) {
		t.Errorf("beside a server: %v, want ErrLocked", err)
	}
	if err := admin.Vacuum(t.Context(), storagetest.Postgres(t).NewDatabase(t)); err == nil {
		t.Error("PostgreSQL was vacuumed")
	}
}
