package storage_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
	"github.com/batonrun/baton/storage/sqlite"
	"github.com/batonrun/baton/storage/storagetest"
)

// crash is the files of a database after a crash, without locks and shared memory.
type crash struct{ database, wal []byte }

func crashed(t *testing.T, path string) crash {
	t.Helper()
	wal, err := os.ReadFile(path + "-wal")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return crash{read(t, path), wal}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(path, b, 0o600))
}

// put lays it into a new directory, and returns the database's URL.
func (c crash) put(t *testing.T) (url, path string) {
	t.Helper()
	url = newSQLite(t)
	path = strings.TrimPrefix(url, "sqlite:")
	write(t, path, c.database)
	if c.wal != nil {
		write(t, path+"-wal", c.wal)
	}
	return url, path
}

func serve(t *testing.T, url string) *storage.DB {
	t.Helper()
	db, err := storage.Open(t.Context(), storage.Config{URL: url, Serve: true, Migrate: true})
	must(t, err)
	return db
}

func closed(t *testing.T, db *storage.DB) {
	t.Helper()
	must(t, db.Close())
}

func TestCleanStopLeavesOneFile(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db := serve(t, url)
	log, want := history(t, joined(t, db), 2, 1, 50)
	closed(t, db)
	if left, _ := filepath.Glob(path + "*"); len(left) != 2 || left[1] != path+".lock" {
		t.Errorf("left over: %v", left)
	}
	copied, _ := crash{database: read(t, path)}.put(t)
	db = open(t, copied)
	for _, key := range log.threads {
		sameLog(t, readLog(t, db, key, 500), want[key])
	}
	if runs, _, err := storagetest.Parts(db.ByProject().Runs(t.Context(), data.RunFilter{Statuses: []data.Status{data.Completed}})); err != nil || len(runs) != 2 {
		t.Errorf("the copy has %d finished runs, %v, want 2", len(runs), err)
	}
}

// A server can start after a killed one, at any point of its work.
func TestOwnWALIsTaken(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	var crashes []crash
	snap := func() { crashes = append(crashes, crashed(t, path)) }
	var log *workload
	for n := range 3 {
		db := serve(t, url)
		snap()
		must(t, db.Members().Join(t.Context(), fmt.Sprint("instance", n), ""))
		snap()
		if log == nil {
			log = newLog(t, db, 3)
		} else {
			log.db, log.n = db, 0
		}
		for i := range 400 { // enough for the WAL to begin again and again
			log.commit(t, log.batch(30))
			if i%57 == 0 {
				snap()
			}
		}
		snap()
		if n == 1 { // the next one follows a crash
			url, path = crashed(t, path).put(t)
		}
		closed(t, db)
	}
	for n, c := range crashes {
		url, path := c.put(t)
		closed(t, serve(t, url))
		if _, err := os.Stat(path + "-wal"); err == nil {
			t.Errorf("crash %d: the WAL is still there", n)
		}
	}
}

// A crash during a checkpoint leaves some of the pages in the database, in any order. The end of a WAL before its
// checkpoint may be missing.
func TestTornWALIsTaken(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db := serve(t, url)
	log := newLog(t, joined(t, db), 3)
	for range 30 {
		log.commit(t, log.batch(30))
	}
	before := crashed(t, path)
	direct, err := sqlx.Open("sqlite", "file:"+path)
	must(t, err)
	defer direct.Close()
	if _, err := direct.Exec("PRAGMA wal_checkpoint"); err != nil {
		t.Fatal(err)
	}
	after := crashed(t, path)
	closed(t, db)
	if len(after.database) <= len(before.database) || len(after.wal) < len(before.wal) {
		t.Fatalf("moving %d bytes of WAL made %d bytes of database %d", len(before.wal), len(before.database), len(after.database))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		torn := crash{database: append([]byte(nil), after.database...), wal: before.wal}
		for at := 0; at < len(before.database); at += 4096 {
			if rnd.IntN(2) == 0 {
				copy(torn.database[at:at+4096], before.database[at:])
			}
		}
		url, _ := torn.put(t)
		copied := open(t, url)
		if got := len(readLog(t, copied, log.threads[0], 500)); got != 300 {
			t.Errorf("%d events, want 300", got)
		}
		closed(t, copied)

		short := crash{before.database, before.wal[:rnd.IntN(len(before.wal))]}
		url, _ = short.put(t)
		closed(t, serve(t, url))
	}
}

// A leftover WAL would destroy a copy that replaces its database.
func TestForeignWALIsRefused(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db := serve(t, url)
	log := newLog(t, joined(t, db), 3)
	log.commit(t, log.batch(300))
	closed(t, db)
	cold := read(t, path)

	db = serve(t, url)
	must(t, db.Members().Join(t.Context(), "second", ""))
	log.db, log.n = db, 0
	log.commit(t, log.batch(30))
	backup := filepath.Join(t.TempDir(), "backup.db")
	must(t, admin.Backup(t.Context(), url, backup))
	used := filepath.Join(t.TempDir(), "used.db")
	write(t, used, read(t, backup))
	closed(t, serve(t, "sqlite:"+used))
	byHand := filepath.Join(t.TempDir(), "hand.db")
	direct, err := sqlx.Open("sqlite", "file:"+path)
	must(t, err)
	defer direct.Close()
	if _, err := direct.Exec("VACUUM INTO ?", byHand); err != nil {
		t.Fatal(err)
	}
	early := crashed(t, path).wal
	for range 600 {
		log.commit(t, log.batch(30))
	}
	late := crashed(t, path).wal
	closed(t, db)

	for name, c := range map[string]crash{
		"a backup":                  {read(t, backup), early},
		"a backup, later":           {read(t, backup), late},
		"a backup that was in use":  {read(t, used), early},
		"a copy by other means":     {read(t, byHand), early},
		"a cold copy, and too late": {cold, late},
	} {
		t.Run(name, func(t *testing.T) {
			url, path := c.put(t)
			for what, err := range map[string]error{
				"a server":  opened(t, storage.Config{URL: url, Serve: true, Migrate: true}),
				"a command": opened(t, storage.Config{URL: url}),
				"Migrate":   storage.Migrate(t.Context(), storage.Config{URL: url}),
				"Backup":    admin.Backup(t.Context(), url, path+".copy"),
			} {
				if !errors.Is(err, sqlite.ErrWAL) || !strings.Contains(err.Error(), path+"-wal") {
					t.Errorf("%s: %v, want ErrWAL", what, err)
				}
			}
			if got := crashed(t, path); string(got.database) != string(c.database) || string(got.wal) != string(c.wal) {
				t.Error("the files are not as they were")
			}
			must(t, os.Remove(path+"-wal"))
			db := open(t, url)
			for _, key := range log.threads {
				if got := len(readLog(t, db, key, 500)); got != 100 && got != 110 {
					t.Errorf("thread %d has %d events", key, got)
				}
			}
		})
	}
	// The WAL of a server has everything since its start that an older copy lacks.
	if url, _ := (crash{cold, early}).put(t); opened(t, storage.Config{URL: url}) != nil {
		t.Error("a WAL that is whole is refused")
	}
}

func opened(t *testing.T, cfg storage.Config) error {
	t.Helper()
	db, err := storage.Open(t.Context(), cfg)
	if err == nil {
		closed(t, db)
	}
	return err
}
