package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/storage/storagetest"
)

// must ends the test if err is not nil.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Concurrent lookups get their own threads, although others give up or have names that no database can store.
func TestThreadsAreFoundTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, findTogether)
}

func findTogether(t *testing.T, db *DB) {
	ctx, now := t.Context(), time.Now()
	must(t, db.Members().Join(ctx, "instance", ""))
	var rows []data.Row
	for i := range int64(50) {
		head := data.ThreadHead{Key: i + 1, Project: "p", User: "u", ID: fmt.Sprint(i), ConversationID: fmt.Sprint(i), CreatedAt: now, UpdatedAt: now}
		rows = append(rows, &data.Thread{ThreadHead: head, State: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	must(t, db.Commit(ctx, 1, &data.Batch{Rows: rows}))
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			switch id := fmt.Sprint(i % 100); {
			case i%7 == 0: // gives up at some time
				ctx, cancel := context.WithTimeout(ctx, time.Duration(i)*time.Microsecond)
				defer cancel()
				if th, err := db.ByProject().ThreadByID(ctx, "p", "u", id); err == nil && th.ID != id {
					t.Errorf("%s is %+v", id, th)
				}
			case i%50 == 1:
				if _, err := db.ByProject().ThreadByID(ctx, "p", "u", "\x00"); err == nil || errors.Is(err, context.Canceled) {
					t.Errorf("a NUL is found: %v", err)
				}
			default:
				th, err := db.ByProject().ThreadByID(ctx, "p", "u", id)
				if i%100 >= 50 {
					if !errors.Is(err, data.ErrNotFound) {
						t.Errorf("%s, which is not there, is %+v, %v", id, th, err)
					}
				} else if err != nil || th.ID != id || string(th.State) != fmt.Sprintf(`{"n":%s}`, id) {
					t.Errorf("%s is %+v, %v", id, th, err)
				}
			}
		})
	}
	all.Wait()
	db.project.mu.Lock()
	defer db.project.mu.Unlock()
	if db.project.busy || len(db.project.waiting) > 0 {
		t.Errorf("busy %v, and %d wait", db.project.busy, len(db.project.waiting))
	}
}

// Those that come while one is looked for go in one statement.
func TestThreadsAreLookedForInOneStatement(t *testing.T) {
	t.Parallel()
	onBoth(t, findInOneStatement)
}

func findInOneStatement(t *testing.T, db *DB) {
	first := &wanted{name: data.Name{ID: "first"}, turn: make(chan bool, 1)}
	if found, err := db.project.wait(t.Context(), first); found || err != nil {
		t.Fatal(found, err)
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := db.ByProject().ThreadByID(t.Context(), "p", "u", fmt.Sprint(i)); !errors.Is(err, data.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	for waiting := 0; waiting < 21; {
		db.project.mu.Lock()
		waiting = len(db.project.waiting)
		db.project.mu.Unlock()
	}
	db.project.find(t.Context())
	if db.project.busy || len(db.project.waiting) > 0 {
		t.Errorf("busy %v, and %d wait behind one statement", db.project.busy, len(db.project.waiting))
	}
	all.Wait()
}

// onBoth runs a test on a database of each kind.
func onBoth(t *testing.T, test func(*testing.T, *DB)) {
	t.Run("sqlite", func(t *testing.T) { test(t, openForPlans(t, "sqlite:"+filepath.Join(t.TempDir(), "baton.db"))) })
	t.Run("postgres", func(t *testing.T) { test(t, openForPlans(t, storagetest.Postgres(t).NewDatabase(t))) })
}
