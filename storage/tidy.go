package storage

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/members"
	"github.com/batonrun/baton/storage/sqldb"
)

// tidyRows is how many rows one transaction removes: commits and the lease wait for it.
const tidyRows = 200

// tidy runs a statement until it removes no more rows, and returns how many it has removed. The last parameter is a number of rows;
// each run is a transaction of its own, and commits continue in between.
func tidy(ctx context.Context, w *members.Writer, query string, args ...any) (removed int, err error) {
	err = inTurns(ctx, func() (bool, error) {
		n, err := tidySome(ctx, w, query, append(slices.Clip(args), tidyRows)...)
		removed += n
		return n == tidyRows, err
	})
	return removed, err
}

// tidySome runs a statement, and returns how many rows it has removed.
func tidySome(ctx context.Context, w *members.Writer, query string, args ...any) (n int, err error) {
	err = w.Aside(ctx, func(tx *sqldb.Tx) (err error) {
		n, err = tx.Count(query, args...)
		return err
	})
	return n, err
}

// inTurns calls do until it has nothing more to do. In between others have their turns.
func inTurns(ctx context.Context, do func() (more bool, err error)) error {
	for {
		if more, err := do(); err != nil || !more {
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}
