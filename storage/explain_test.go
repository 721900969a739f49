package storage

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func TestErrorsMeanWhatTheContractSays(t *testing.T) {
	t.Parallel()
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
		{violation("run_names_pkey"), data.ErrConflict},
		{code("22021"), data.ErrText}, // a character that is none
		{code("54000"), nil},          // too long
		{errors.New("anything"), nil},
	} {
		got := postgresDialect().explained(t.Context(), test.err)
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
	if got := postgresDialect().explained(ctx, code("57014")); !errors.Is(got, context.Canceled) ||
		errors.Is(got, data.ErrTooSlow) {
		t.Errorf("after a cancellation: %v", got)
	}
}

func TestFullDiskWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := Open(ctx, Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Serve: true, Migrate: true})
	must(t, err)
	defer db.Close()
	must(t, db.Join(ctx, "instance", ""))
	pages := func(limit string) {
		t.Helper()
		if _, err := db.connect(ctx); err != nil {
			t.Fatal(err)
		}
		must(t, db.session.exec(ctx, "PRAGMA max_page_count = "+limit))
	}
	var events []data.StoredEvent
	for id := range int64(2000) {
		events = append(events, data.StoredEvent{
			ThreadKey: 1, ID: id + 1, RunKey: 1, Kind: agui.TypeCustom, Payload: []byte(`{"type":"CUSTOM","value":"some text"}`),
		})
	}
	for range 3 {
		pages("1") // which SQLite takes for the pages there are
		if err := db.Commit(ctx, 1, &data.Batch{Events: events}); !errors.Is(err, data.ErrDiskFull) {
			t.Fatalf("Commit: %v, want ErrDiskFull", err)
		}
	}
	if got, err := db.Events(ctx, 1, 0, 10); err != nil || len(got) != 0 {
		t.Errorf("%d events were written, %v", len(got), err)
	}
	pages("100000")
	if err := db.Commit(ctx, 1, &data.Batch{Events: events}); err != nil {
		t.Fatalf("Commit with room again: %v", err)
	}
	if got, err := db.Events(ctx, 1, 0, 5000); err != nil || len(got) != 2000 {
		t.Errorf("%d events, %v, want 2000", len(got), err)
	}
}

// A server that refuses sessions is unavailable, in every language of its messages.
func TestRefusedSessionIsAnOutageInAllLanguages(t *testing.T) {
	t.Parallel()
	for _, fatal := range []string{"FATAL", "ВАЖНО"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer l.Close()
		go func() { // ends with the listener
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1<<10))
				body := "S" + fatal + "\x00VFATAL\x00CXX000\x00Mno session\x00\x00"
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(4+len(body))), body...))
				_ = conn.Close()
			}
		}()
		db, err := Open(t.Context(), Config{URL: "postgres://baton@" + l.Addr().String() + "/baton?sslmode=disable"})
		if !errors.Is(err, data.ErrUnavailable) {
			t.Errorf("%s is taken for %v", fatal, err)
		}
		if err == nil {
			_ = db.Close()
		}
	}
}
