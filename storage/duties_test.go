package storage_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/janitor"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/postgrestest"
)

// A duty has one instance until that leaves it or is fenced. Whoever had it before writes nothing more for it, also if it was
// stopped in the middle.
func TestDuties_HaveOneHolder(t *testing.T) {
	t.Parallel()
	url := postgrestest.New(t)
	open := func(instance string) *storage.DB {
		db, err := storage.Open(t.Context(), storage.Config{URL: url})
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		must(t, db.Members().Join(t.Context(), instance, ""))
		return db
	}
	x, y, z := open("x"), open("y"), open("z")
	takes := func(db *storage.DB, want bool) {
		t.Helper()
		if mine, err := db.Members().TakeDuty(t.Context(), "keys"); mine != want || err != nil {
			t.Errorf("TakeDuty: %v, %v, want %v", mine, err, want)
		}
	}
	key := &data.IdempotencyKey{Scope: "old", CreatedAt: time.Now().Add(-time.Hour)}
	must(t, z.Commit(t.Context(), 1, &data.Batch{Rows: []data.Row{key}}))
	// forget removes old keys as a duty of the instance, and calls stopped before it writes.
	forget := func(db *storage.DB, stopped func()) (err error) {
		j := janitor.New(janitor.Config{Log: slog.New(slog.DiscardHandler), Duties: []janitor.Duty{
			{Name: "keys", Every: time.Hour, Do: func(ctx context.Context, now time.Time) error {
				stopped()
				err = db.Retention.ForgetKeys(ctx, now)
				return nil
			}},
		}})
		j.Turn(t.Context(), time.Now())
		return err
	}
	takes(x, true)
	takes(y, false)
	takes(x, true)
	err := forget(x, func() {
		must(t, x.Members().LeaveDuties(t.Context()))
		takes(y, true)
	})
	if !errors.Is(err, janitor.ErrNotNow) {
		t.Errorf("an instance that has left its duty: %v", err)
	}
	takes(x, false)
	err = forget(y, func() {
		must(t, z.Members().Fence(t.Context(), "y"))
		takes(x, true)
	})
	if !errors.Is(err, data.ErrFenced) {
		t.Errorf("a fenced instance: %v", err)
	}
	kept := func() (kept bool) {
		t.Helper()
		b := &data.Batch{Asks: []data.Ask{{Scope: "old"}}, Decide: func(_ int, v *data.View) data.Changes {
			_, kept = v.Remembered["old"]
			return data.Changes{}
		}}
		must(t, z.Commit(t.Context(), 2, b))
		return kept
	}
	if !kept() {
		t.Error("a former holder has done the duty")
	}
	if err := forget(x, func() {}); err != nil {
		t.Error(err)
	}
}
