package storage

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/sqlite"
)

// ErrSchema means that the database has no schema, or not the one this program needs.
var ErrSchema = data.ErrSchema

// ErrLocked means that another server has the SQLite database.
var ErrLocked = sqlite.ErrLocked

// ErrDamaged means that the pages of the database do not fit together.
var ErrDamaged = data.ErrDamaged

// Passes reports whether opening a database may succeed later although nobody changes it: see [data.Passes].
func Passes(err error) bool { return data.Passes(err) }

// explained wraps err with the matching sentinel of model. Errors of the data stay as they are. After a cancellation it
// returns the context's error.
func (d *dialect) explained(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, data.ErrNotFound) {
		return err
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return fmt.Errorf("%w: %w", ctxErr, err)
	}
	sentinel := d.explain(err)
	if sentinel == nil && isConnectionError(err) {
		sentinel = data.ErrUnavailable
	}
	if sentinel == nil || errors.Is(err, sentinel) {
		return err
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func isConnectionError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// isLocked reports whether a statement of PostgreSQL has waited for a lock for too long.
func isLocked(err error) bool {
	pe := (*pq.Error)(nil)
	return errors.As(err, &pe) && pe.Code == pqerror.LockNotAvailable
}

// isUndefinedTable reports whether a statement has named a table that is not there.
func isUndefinedTable(err error) bool {
	if pe := (*pq.Error)(nil); errors.As(err, &pe) {
		return pe.Code == pqerror.UndefinedTable
	}
	return sqlite.IsUndefinedTable(err)
}
