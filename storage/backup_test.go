package storage_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/storagetest"
)

func TestBackupIsOneMomentOfALiveServer(t *testing.T) {
	url := newSQLite(t)
	log := newLog(t, joined(t, open(t, url)), 4)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { // ends with the backup
		for ctx.Err() == nil {
			log.n++
			if err := log.db.Commit(t.Context(), log.n, &model.Batch{Events: log.batch(40)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	dest := filepath.Join(t.TempDir(), "copy.db")
	err := storage.Backup(t.Context(), url, dest)
	stop()
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	lengths := make(map[int]bool)
	backup := open(t, "sqlite:"+dest)
	for _, key := range log.threads {
		lengths[len(readLog(t, backup, key, 500))] = true
	}
	if len(lengths) != 1 { // every commit appended as much to each thread
		t.Errorf("the copy's logs have the lengths %v", lengths)
	}
	if err := backup.Close(); err != nil {
		t.Fatal(err)
	}
	if err := storage.Backup(t.Context(), "sqlite:"+dest, dest+" of it"); err != nil {
		t.Errorf("of a database that nobody has open: %v", err)
	}
	if err := storage.Backup(t.Context(), url, dest); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto an existing file: %v, want ErrExist", err)
	}
	if left, _ := filepath.Glob(dest + ".part*"); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	err = storage.Backup(t.Context(), storagetest.Postgres(t).NewDatabase(t), dest+"2")
	if err == nil || !strings.Contains(err.Error(), "pg_dump") {
		t.Errorf("PostgreSQL: %v, want to be sent to pg_dump", err)
	}
}
