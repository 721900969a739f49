package storage

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// Whatever statement of a commit fails, done or not, again and again, the batch is written once: events alone, which
// leave no trace but themselves, and such as have rows.
func TestStatementsThatFailLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	var statement, failing, failures int // the failing-th statement of a commit fails, so often
	var done bool                        // after it was done
	db := tapped(t, func(_ string, do func() error) error {
		statement++
		if statement != failing || failures == 0 {
			return do()
		}
		failures--
		if done {
			_ = do()
		}
		return io.ErrUnexpectedEOF
	})
	ctx, last, n := t.Context(), int64(0), int64(0)
	key := func(take func() (int64, error)) int64 {
		key, err := take()
		must(t, err)
		return key
	}
	commit := func(b *data.Batch) (tries int) {
		t.Helper()
		n++
		for tries = 1; ; tries++ {
			statement = 0
			err := db.Commit(ctx, n, b)
			if err == nil {
				break
			}
			if !errors.Is(err, data.ErrUnavailable) || tries > 10 {
				t.Fatalf("commit %d, statement %d: %v", n, failing, err)
			}
		}
		statement = failing // Renew's do not fail
		if err := db.Members().Renew(ctx, n); err != nil {
			t.Fatalf("Renew behind commit %d: %v", n, err)
		}
		return tries
	}
	must(t, db.Members().Join(ctx, "instance", ""))
	thread := key(func() (int64, error) { return db.NewThreadKey(ctx) })
	commit(&data.Batch{Rows: []data.Row{&data.Thread{ThreadHead: data.ThreadHead{Key: thread}}}})
	said := func() []data.StoredEvent {
		last += 2
		event := func(id int64) data.StoredEvent {
			return data.StoredEvent{ThreadKey: thread, ID: id, RunKey: 1, Kind: agui.TypeCustom, Payload: []byte(`{"type":"CUSTOM"}`)}
		}
		return []data.StoredEvent{event(last - 1), event(last)}
	}
	runs := 0
	batches := []func() *data.Batch{
		func() *data.Batch { return &data.Batch{} },
		func() *data.Batch { return &data.Batch{Events: said()} },
		func() *data.Batch {
			runs++
			head := data.RunHead{Key: key(func() (int64, error) { return db.NewRunKey(ctx) }), ThreadKey: thread, Status: data.Queued}
			return &data.Batch{Events: said(), Rows: []data.Row{&data.Run{RunHead: head}}}
		},
	}
	for i, before := range batches {
		for j, batch := range batches {
			for _, done = range []bool{false, true} {
				for _, times := range []int{1, 3} {
					for failing = 1; ; failing++ {
						commit(before())
						failures = times
						if commit(batch()) == 1 && failures > 0 { // there is no such statement
							failures = 0
							break
						}
					}
					if failing < 4 {
						t.Errorf("kind %d after %d: a commit has %d statements", j, i, failing-1)
					}
				}
			}
		}
	}
	events, err := db.Events(ctx, thread, 0, 10_000)
	if err != nil || int64(len(events)) != last {
		t.Fatalf("%d events, %v, want %d", len(events), err, last)
	}
	for i, ev := range events {
		if ev.ID != int64(i+1) {
			t.Fatalf("event %d is at place %d", ev.ID, i+1)
		}
	}
	if open, err := db.OpenRuns(ctx, thread); err != nil || len(open) != runs {
		t.Errorf("%d runs, %v, want %d", len(open), err, runs)
	}
}

// An instance that was fenced while the result of its last batch was unknown learns whether the batch was written.
func TestFenceFindsABatchInDoubt(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprint(written), func(t *testing.T) {
			lose := false
			db := tapped(t, func(query string, do func() error) error {
				if !lose || query != "COMMIT" {
					return do()
				}
				lose = false
				if written {
					_ = do()
				}
				return io.ErrUnexpectedEOF
			})
			must(t, db.Members().Join(t.Context(), "instance", ""))
			b := &data.Batch{Events: []data.StoredEvent{
				{ThreadKey: 1, ID: 1, RunKey: 1, Kind: agui.TypeCustom, Payload: []byte(`{"type":"CUSTOM"}`)},
			}}
			lose = true
			if err := db.Commit(t.Context(), 1, b); !errors.Is(err, data.ErrUnavailable) {
				t.Fatalf("Commit: %v, want ErrUnavailable", err)
			}
			must(t, db.Members().Fence(t.Context(), "instance"))
			if err := db.Commit(t.Context(), 1, b); errors.Is(err, data.ErrFenced) == written || written && err != nil {
				t.Errorf("Commit again: %v; it was written: %t", err, written)
			}
			if got, err := db.Events(t.Context(), 1, 0, 10); err != nil || (len(got) == 1) != written {
				t.Errorf("%d events, %v", len(got), err)
			}
		})
	}
}
