package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/sqlitetest"
)

// database is the storage of a history's processes: in memory, a SQLite file, or PostgreSQL.
type database struct {
	path   string // of the SQLite file, or empty
	url    string // of PostgreSQL, or empty
	memory *memory.Database
}

// newDatabase creates an empty database for a history.
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

// open opens the Store of a process. Only a database in memory uses the history's clock.
func (d *database) open(ctx context.Context, p *process) (data.Store, error) {
	switch {
	case d.path != "":
		return storage.Open(ctx, storage.Config{URL: "sqlite:" + d.path, Readers: 2})
	case d.url != "":
		return storage.Open(ctx, storage.Config{URL: d.url, Readers: 2})
	}
	if d.memory == nil {
		d.memory = memory.New(p.w.dbNow)
		d.memory.Check(p.s.queueChecks())
	}
	if !p.w.several() {
		return d.memory.Open(), nil
	}
	return d.memory.OpenBeside(memory.Beside{
		Lease: lease,
		Slots: p.w.h.Slots,
		Pause: func(at string) {
			p.w.nap(at, p.n)
			p.awake()
		},
		Broken: func(what string) { p.w.find(RuleOwner, "%s", what) },
	}), nil
}

// died marks a process as dead. On SQLite its released lock does the same.
func (d *database) died(store data.Store) {
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

// room returns the directory for databases, in memory if the system has such a directory.
func room() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}
