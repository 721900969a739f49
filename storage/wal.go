package storage

import (
	"context"
	"fmt"

	"github.com/batonrun/baton/storage/sqlite"
)

const (
	waitASecond = `
PRAGMA busy_timeout = 1000`

	selectMark = `
PRAGMA user_version`
)

// mark writes this server's marks after moving the old WAL into the database. The caller holds mu.
func (w *writer) mark(ctx context.Context, read *pool) error {
	if err := w.exec(ctx, sqlite.MoveWAL); err != nil {
		return err
	}
	found, err := one(ctx, read, scalar[int32], selectMark)
	if err != nil {
		return err
	}
	return w.exec(ctx, fmt.Sprintf(sqlite.SetMark, found+1), fmt.Sprintf(sqlite.SetMark, sqlite.NewMark()))
}

// leaveNoWAL moves all of the WAL into the database, so that a copy of the one file is a copy of everything. The last
// connection that is closed removes the WAL then. The caller holds mu.
func (w *writer) leaveNoWAL() {
	if !w.d.single || w.session == nil {
		return
	}
	// A long read must not delay the server's end.
	for _, statement := range []string{waitASecond, sqlite.MoveWAL} {
		if err := w.session.exec(context.Background(), statement); err != nil {
			w.cfg.Log.Warn("the WAL could not be moved into the database", "error", err)
		}
	}
}
