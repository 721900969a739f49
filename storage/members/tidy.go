package members

import (
	"context"
	"slices"

	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage/sqldb"
)

// TidyRows is how many rows one transaction removes: commits and the lease wait for it.
const TidyRows = 200

// Tidy runs a statement until it removes no more rows, and returns how many it has removed. The last parameter is a number of rows;
// each run is a transaction of its own, and commits continue in between.
func (w *Writer) Tidy(ctx context.Context, query string, args ...any) (removed int, err error) {
	err = InTurns(ctx, func() (bool, error) {
		n := 0
		err := w.Aside(ctx, func(tx *sqldb.Tx) (err error) {
			n, err = tx.Count(query, append(slices.Clip(args), TidyRows)...)
			return err
		})
		removed += n
		return n == TidyRows, err
	})
	return removed, err
}

// InTurns calls do until it has nothing more to do. In between others have their turns.
func InTurns(ctx context.Context, do func() (more bool, err error)) error {
	for {
		if more, err := do(); err != nil || !more {
			return err
		}
		if err := janitor.Yield(ctx); err != nil {
			return err
		}
	}
}
