package storage_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage/storagetest"
)

// What many decisions read and write goes over the network together, so that a commit of four times as many does not
// take four times as long.
func TestDecisionsShareRoundTrips(t *testing.T) {
	p, through := newProxy(t, storagetest.Postgres(t).NewDatabase(t))
	log := newLog(t, joined(t, open(t, through)), 1)
	messages := func(n int) (started, ended int64) {
		var threads []*runtime.Thread
		var runs []*runtime.Run
		passed := func(fn func(runtime.Tx) error) int64 {
			before := p.left.Load()
			log.commit(t, nil, fn)
			return before - p.left.Load()
		}
		started = passed(func(tx runtime.Tx) error {
			w := runtime.Wanted{}
			names := make([]runtime.Name, n)
			for i := range names {
				log.names++
				names[i] = runtime.Name{Project: "p", User: "u", ID: fmt.Sprint("named ", log.names)}
			}
			w.ThreadNames, w.RunNames = names, names
			if err := tx.Ahead(w); err != nil {
				return err
			}
			for _, name := range names {
				if _, err := tx.ThreadByID(t.Context(), "p", "u", name.ID); !errors.Is(err, runtime.ErrNotFound) {
					t.Errorf("%s: %v", name.ID, err)
				}
				if found, err := tx.RunsByName(t.Context(), "p", "u", name.ID); len(found) > 0 || err != nil {
					t.Errorf("%s: %v, %v", name.ID, found, err)
				}
				thread, run, err := log.newRun(tx)
				if err != nil {
					return err
				}
				threads, runs = append(threads, thread), append(runs, run)
			}
			return nil
		})
		ended = passed(func(tx runtime.Tx) error {
			w := runtime.Wanted{}
			for i := range n {
				w.Threads, w.Runs = append(w.Threads, threads[i].Key), append(w.Runs, runs[i].Key)
			}
			if err := tx.Ahead(w); err != nil {
				return err
			}
			for i := range n {
				thread, err := tx.LockThread(threads[i].Key)
				if err != nil {
					return err
				}
				open, err := tx.OpenRuns(t.Context(), thread.Key)
				if err != nil || len(open) != 1 {
					return fmt.Errorf("%d open runs, %w", len(open), err)
				}
				if _, err := tx.Queued(t.Context(), runs[i].Key); err != nil {
					return err
				}
				open[0].Status, thread.Title = runtime.Completed, "done"
				if err := tx.Put(&open[0], &thread); err != nil {
					return err
				}
			}
			return nil
		})
		return started, ended
	}
	p.left.Store(math.MaxInt64)
	messages(8)
	messages(32) // all statements are prepared now
	started8, ended8 := messages(8)
	started32, ended32 := messages(32)
	t.Logf("8 starts pass %d messages, 32 pass %d; 8 ends %d, 32 ends %d", started8, started32, ended8, ended32)
	if started32 > 2*started8 || ended32 > 2*ended8 {
		t.Error("each decision costs round trips of its own")
	}
}
