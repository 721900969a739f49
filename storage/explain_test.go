package storage

import (
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func TestFullDiskWritesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := Open(ctx, Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Serve: true, Migrate: true})
	must(t, err)
	defer db.Close()
	must(t, db.Members().Join(ctx, "instance", ""))
	pages := func(limit string) {
		t.Helper()
		db.w.Lock()
		defer db.w.Unlock()
		must(t, db.w.Exec(ctx, "PRAGMA max_page_count = "+limit))
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
