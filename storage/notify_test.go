package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/bus/bustest"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
	"github.com/batonrun/baton/storage/storagetest"
)

// clustered returns the databases of servers that join a cluster one after the other. Those before know of each.
func clustered(t *testing.T, url string) (join func() *storage.DB) {
	var all []*storage.DB
	return func() *storage.DB {
		t.Helper()
		db, err := storage.Open(t.Context(), storage.Config{URL: url, Lease: time.Minute})
		must(t, err)
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		must(t, db.Members().Join(t.Context(), fmt.Sprint("server", len(all)), ""))
		for _, other := range all {
			if _, err := other.Members().Watch(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, db)
		return db
	}
}

func TestNotify_IsABus(t *testing.T) {
	t.Parallel()
	join := clustered(t, postgrestest.New(t))
	bustest.Contract(t, func() bus.Bus { return join().Registry.Bus() })
}

// A SQLite database has no bus.
func TestNotify_IsOfPostgres(t *testing.T) {
	t.Parallel()
	for name, open := range databases {
		if b := open(t).Registry.Bus(); (b != nil) != (name == "postgres") {
			t.Errorf("%s: %v", name, b)
		}
	}
}

// A connection that is cut, or silent, is replaced. Until then nothing is sent, and the receiver learns that it may have lost something.
func TestNotify_ConnectsAgain(t *testing.T) {
	t.Parallel()
	direct := postgrestest.New(t)
	p, through := storagetest.NewProxy(t, direct)
	join := clustered(t, through)
	db := join()
	join()
	b := db.Registry.Bus()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bustest.Passes(t, b)
	admin := sqlx.MustConnect("postgres", direct)
	defer admin.Close()
	var ended int
	if err := admin.GetContext(ctx, &ended, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'NOTIFY%' AND application_name = 'baton server0'`); err != nil || ended != 1 {
		t.Fatalf("%d sessions, %v", ended, err)
	}
	if _, err := b.Receive(ctx); !errors.Is(err, bus.ErrCut) {
		for err == nil { // what was sent before
			_, err = b.Receive(ctx)
		}
		if !errors.Is(err, bus.ErrCut) {
			t.Errorf("receive: %v, want ErrCut", err)
		}
	}
	if err := b.Send(ctx, []byte("x")); !errors.Is(err, bus.ErrCut) {
		t.Errorf("send: %v, want ErrCut", err)
	}
	bustest.Passes(t, b)

	p.Silent.Store(true)
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := b.Send(soon, []byte("x")); err == nil {
		t.Error("it is sent on a silent network")
	}
	p.Silent.Store(false)
	if len(bustest.Passes(t, b)) == 0 {
		t.Error("the receiver does not learn that the connection was cut")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
