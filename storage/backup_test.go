package storage_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestBackupIsOneMomentOfALiveServer(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	log := newLog(t, joined(t, open(t, url)), 4)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the backup
		for ctx.Err() == nil {
			log.n++
			if err := log.db.Commit(t.Context(), log.n, &data.Batch{Events: log.batch(40)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	dest := filepath.Join(t.TempDir(), "copy.db")
	err := admin.Backup(t.Context(), url, dest)
	stop()
	wg.Wait()
	must(t, err)
	lengths := make(map[int]bool)
	backup := open(t, "sqlite:"+dest)
	for _, key := range log.threads {
		lengths[len(readLog(t, backup, key, 500))] = true
	}
	if len(lengths) != 1 { // every commit appended as much to each thread
		t.Errorf("the copy's logs have the lengths %v", lengths)
	}
	must(t, backup.Close())
	if err := admin.Backup(t.Context(), "sqlite:"+dest, dest+" of it"); err != nil {
		t.Errorf("of a database that nobody has open: %v", err)
	}
	if err := admin.Backup(t.Context(), url, dest); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto an existing file: %v, want ErrExist", err)
	}
	if left, _ := filepath.Glob(dest + ".part*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	err = admin.Backup(t.Context(), storagetest.Postgres(t).NewDatabase(t), dest+"2")
	if err == nil || !strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("PostgreSQL: %v, want to be sent to pg_dump", err)
	}
}

func TestRestorePutsACopyInPlace(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	backup := filepath.Join(t.TempDir(), "backup.db")
	db := serve(t, url)
	log := newLog(t, joined(t, db), 2)
	log.commit(t, log.batch(40))
	must(t, admin.Backup(t.Context(), url, backup))
	log.commit(t, log.batch(20))
	if _, err := admin.Restore(t.Context(), url, backup, false); !errors.Is(err, storage.ErrLocked) {
		t.Errorf("beside a server: %v, want ErrLocked", err)
	}
	killed := crashed(t, path)
	closed(t, db)
	length := func(url string, want int) {
		t.Helper()
		db := serve(t, url)
		defer closed(t, db)
		if got := len(readLog(t, db, log.threads[0], 500)); got != want {
			t.Errorf("%s: %d events, want %d", url, got, want)
		}
	}
	for name, c := range map[string]crash{"after a stop": {database: read(t, path)}, "after a kill": killed} {
		t.Run(name, func(t *testing.T) {
			url, path := c.put(t)
			kept, err := admin.Restore(t.Context(), url, backup, false)
			must(t, err)
			length(url, 20)
			length("sqlite:"+kept, 30)

			kept, err = admin.Restore(t.Context(), url, backup, true)
			if err != nil || kept != "" {
				t.Errorf("to keep nothing: %q, %v", kept, err)
			}
			length(url, 20)
			if all, _ := filepath.Glob(path + "*"); len(all) != 4 { // with two locks
				t.Errorf("there are %v", all)
			}
		})
	}
	fresh := noSQLite(t)
	if kept, err := admin.Restore(t.Context(), fresh, backup, false); err != nil || kept != "" {
		t.Errorf("where there was none: %q, %v", kept, err)
	}
	length(fresh, 20)
	length("sqlite:"+backup, 20)
}

func TestRestoreRefusesWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	db := serve(t, url)
	log := newLog(t, joined(t, db), 2)
	for range 50 {
		log.commit(t, log.batch(40))
	}
	closed(t, db)
	whole := read(t, path)

	damaged := append([]byte(nil), whole...)
	for at := 20 * 4096; at < len(damaged); at += 2 * 4096 {
		clear(damaged[at : at+200])
	}
	_, newer := crash{database: whole}.put(t)
	change(t, newer, "INSERT INTO schema_versions (version_id, is_applied) VALUES (1000, TRUE)")
	change(t, newer, "UPDATE schema_oldest SET oldest = 1000")
	_, foreign := crash{}.put(t)
	change(t, foreign, "CREATE TABLE something (else_ TEXT)")
	_, torn := crash{database: whole[:len(whole)/2]}.put(t)
	_, damagedPath := crash{database: damaged}.put(t)
	for name, from := range map[string]string{
		"damaged": damagedPath, "newer": newer, "foreign": foreign, "half of it": torn, "missing": filepath.Join(t.TempDir(), "none.db"),
	} {
		_, err := admin.Restore(t.Context(), url, from, false)
		if err == nil {
			t.Errorf("%s: restored", name)
		}
		t.Log(name, err)
		if left, _ := filepath.Glob(path + "*"); len(left) != 2 || string(read(t, path)) != string(whole) {
			t.Errorf("%s: the database is not as it was: %v", name, left)
		}
	}
	_, err := admin.Restore(t.Context(), storagetest.Postgres(t).NewDatabase(t), path, false)
	if err == nil || !strings.Contains(err.Error(), "pg_restore") {
		t.Errorf("PostgreSQL: %v, want to be sent to pg_restore", err)
	}
}

// change runs a statement on a closed SQLite file.
func change(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sqlx.Open("sqlite", "file:"+path)
	must(t, err)
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func TestBackupWritesNothingToTheDatabase(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	path := strings.TrimPrefix(url, "sqlite:")
	log := newLog(t, joined(t, open(t, url)), 1)
	log.commit(t, log.batch(10))
	before := crashed(t, path)
	must(t, admin.Backup(t.Context(), url, path+".copy"))
	if after := crashed(t, path); string(after.database) != string(before.database) || string(after.wal) != string(before.wal) {
		t.Error("the database or its WAL has changed")
	}
}
