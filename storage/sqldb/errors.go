package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/storage/sqlite"
)

func isConnectionError(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// IsLocked reports whether a statement of PostgreSQL has waited for a lock for too long.
func IsLocked(err error) bool {
	pe := (*pq.Error)(nil)
	return errors.As(err, &pe) && pe.Code == pqerror.LockNotAvailable
}

// IsUndefinedTable reports whether a statement has named a table that is not there.
func IsUndefinedTable(err error) bool {
	if pe := (*pq.Error)(nil); errors.As(err, &pe) {
		return pe.Code == pqerror.UndefinedTable
	}
	return sqlite.IsUndefinedTable(err)
}
