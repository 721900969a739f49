package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/runtime/data"
)

func TestErrorsMeanWhatTheContractSays(t *testing.T) {
	t.Parallel()
	db := newPostgres(Config{Guards: []string{"runs_open"}})
	code := func(c string) error { return fmt.Errorf("wrapped: %w", &pq.Error{Code: pqerror.Code(c)}) }
	violation := func(constraint string) error {
		return &pq.Error{Code: pqerror.UniqueViolation, Constraint: constraint}
	}
	for _, test := range []struct {
		err  error
		want error // nil: the data's fault
	}{
		{code("53100"), data.ErrDiskFull},
		{code("XX001"), data.ErrDamaged},
		{code("57P01"), data.ErrUnavailable}, // shutdown
		{code("57014"), data.ErrTooSlow},     // statement timeout
		{code("25P03"), data.ErrUnavailable}, // idle in transaction
		{code("25006"), data.ErrDenied},      // read-only, after a failover
		{code("42501"), data.ErrDenied},      // no right, as a role that may only read for a while
		{code("40001"), data.ErrUnavailable}, // serialization
		{code("40P01"), data.ErrUnavailable}, // deadlock
		{code("55P03"), data.ErrUnavailable}, // lock timeout
		{code("53300"), data.ErrUnavailable}, // too many connections
		{code("28P01"), data.ErrDenied},      // password
		{code("08006"), data.ErrUnavailable},
		{&pq.Error{Code: "XX000", Severity: pqerror.SeverityFatal}, data.ErrUnavailable}, // no session: its files have no room
		{driver.ErrBadConn, data.ErrUnavailable},
		{io.ErrUnexpectedEOF, data.ErrUnavailable},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, data.ErrUnavailable},
		{code("23505"), nil}, // unique violation
		{violation("messages_seq"), nil},
		{violation("runs_open"), data.ErrConflict},
		{code("22021"), data.ErrText}, // a character that is none
		{code("54000"), nil},          // too long
		{errors.New("anything"), nil},
	} {
		got := db.explained(t.Context(), test.err)
		for _, sentinel := range []error{data.ErrUnavailable, data.ErrDenied, data.ErrDamaged, data.ErrDiskFull, data.ErrTooSlow, data.ErrConflict, data.ErrText} {
			if errors.Is(got, sentinel) != errors.Is(test.want, sentinel) {
				t.Errorf("%v became %v, want %v", test.err, got, test.want)
			}
		}
		if !errors.Is(got, test.err) {
			t.Errorf("%v became %v, want %v", test.err, got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := db.explained(ctx, code("57014")); !errors.Is(got, context.Canceled) ||
		errors.Is(got, data.ErrTooSlow) {
		t.Errorf("after a cancellation: %v", got)
	}
}
