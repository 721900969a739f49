package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/model"
	"github.com/batonrun/baton/runtime/sim/memory"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// database is where a history's processes keep what they know: in memory, or in a SQLite file or on PostgreSQL as servers
// have it.
type database struct {
	path   string // of the file, empty for none
	url    string // of PostgreSQL, likewise
	memory *memory.Database
}

// newDatabase makes an empty database for a history.
func newDatabase(h *History) (*database, error) {
	if !h.SQLite {
		return &database{}, nil
	}
	raw, err := sqlitetest.File()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(room(), fmt.Sprintf("baton-sim-%d-%d.db", os.Getpid(), files.Add(1)))
	return &database{path: path}, os.WriteFile(path, raw, 0o600)
}

// open opens the Store of one more process. The first of them brings the clock along.
func (d *database) open(w *world) (model.Store, error) {
	switch {
	case d.path != "":
		return storage.Open(w.ctx, storage.Config{URL: "sqlite:" + d.path, Readers: 2})
	case d.url != "":
		return storage.Open(w.ctx, storage.Config{URL: d.url, Readers: 2})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.memory == nil {
		d.memory = memory.New(w.dbNow)
	}
	return d.memory.Open(), nil
}

// died tells the database that a process is gone. Of a SQLite file nobody else has the lock, which says the same.
func (d *database) died(store model.Store) {
	if s, ok := store.(*memory.Store); ok {
		s.Died()
	}
}

func (d *database) remove() {
	if d.path == "" {
		return
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		_ = os.Remove(d.path + suffix)
	}
}

// files numbers the databases of this process.
var files atomic.Int64

// room is where databases are made: in memory, where the system has such a place.
func room() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}
