package storagetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
)

func testCommitOnce(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", runtime.Running)
	batch := events(run, 1, 3)
	called := 0
	for range 3 {
		err := f.Commit(t.Context(), f.n+1, batch, func(tx runtime.Tx) error {
			called++
			tx.Append(events(run, 4, 4)...)
			return tx.Put(runOf(thread, "other", runtime.Queued))
		})
		if err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
	f.n++
	for range 3 {
		if err := f.Commit(t.Context(), f.n+1, events(run, 5, 6), nil); err != nil {
			t.Fatalf("Commit of events alone: %v", err)
		}
	}
	if called != 1 {
		t.Errorf("apply was called %d times", called)
	}
	got, err := f.Events(t.Context(), thread.Key, 0, 100)
	equal(t, "Events", got, err, events(run, 1, 6))
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "open runs", len(open), err, 2)
}

func testCommitNumber(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	none := func(runtime.Tx) error { return nil }
	f.commit(t, nil, none)
	f.commit(t, nil, nil)
	for _, n := range []int64{f.n - 1, f.n + 2} {
		wantDataError(t, f.Commit(t.Context(), n, nil, none))
		wantDataError(t, f.Commit(t.Context(), n, events(run, 1, 1), nil))
	}
	last, err := f.LastEventID(t.Context(), run.ThreadKey)
	equal(t, "LastEventID", last, err, 0)
	f.commit(t, events(run, 1, 1), nil)
}

func testFence(t *testing.T, f *fixture) {
	fencer, ok := f.Store.(interface {
		Fence(ctx context.Context, instance string) error
	})
	if !ok {
		t.Skip("the store has no Fence")
	}
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	f.commit(t, events(run, 1, 1), nil)
	if err := fencer.Fence(t.Context(), "instance-1"); err != nil {
		t.Fatalf("Fence: %v", err)
	}
	if err := f.Commit(t.Context(), f.n, events(run, 1, 1), nil); err != nil {
		t.Errorf("a batch committed before the fence: %v", err)
	}
	err := f.Commit(t.Context(), f.n+1, events(run, 2, 2), nil)
	if !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("Commit of events: %v, want ErrFenced", err)
	}
	err = f.Commit(t.Context(), f.n+1, events(run, 2, 2), func(tx runtime.Tx) error {
		t.Error("apply was called")
		return nil
	})
	if !errors.Is(err, runtime.ErrFenced) {
		t.Errorf("Commit: %v, want ErrFenced", err)
	}
	got, err := f.Events(t.Context(), run.ThreadKey, 0, 100)
	equal(t, "Events", len(got), err, 1)

	if err := f.Join(t.Context(), "instance-2", ""); err != nil {
		t.Fatalf("Join again: %v", err)
	}
	f.n = 0
	f.commit(t, events(run, 2, 2), nil)
}

func testApplyError(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", runtime.Running)
	errMine := errors.New("mine")
	err := f.try(t.Context(), events(run, 1, 1), func(tx runtime.Tx) error {
		if err := tx.Put(runOf(thread, "other", runtime.Queued)); err != nil {
			return err
		}
		return errMine
	})
	if err != errMine { //nolint:errorlint // as it is
		t.Errorf("Commit: %v, want apply's own error", err)
	}
	got, err := f.Events(t.Context(), thread.Key, 0, 10)
	equal(t, "events", len(got), err, 0)
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", keys(open), err, []int64{run.Key})
	f.newRun(t, thread, "other", runtime.Queued)
}

func testApplyPanic(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	func() {
		defer func() { _ = recover() }()
		_ = f.try(t.Context(), nil, func(tx runtime.Tx) error {
			if err := tx.Put(runOf(thread, "run", runtime.Queued)); err != nil {
				t.Error(err)
			}
			panic("apply")
		})
		t.Error("the panic did not pass")
	}()
	f.newRun(t, thread, "run", runtime.Queued)
}

func testSwallowedError(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	f.newRun(t, thread, "run", runtime.Running)
	err := f.try(t.Context(), nil, func(tx runtime.Tx) error {
		_ = tx.Put(runOf(thread, "a", runtime.Queued))
		_ = tx.Put(runOf(thread, "b", runtime.Running)) // a second active one
		_ = tx.Put(runOf(thread, "c", runtime.Queued))
		return nil
	})
	wantDataError(t, err)
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "open runs", len(open), err, 1)
}

func testKeysTakenBack(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := runOf(thread, "run", runtime.Queued)
	_ = f.try(t.Context(), nil, func(tx runtime.Tx) error {
		if err := tx.Put(run); err != nil || run.Key == 0 {
			t.Errorf("Put: key %d, %v", run.Key, err)
		}
		return errors.New("no")
	})
	if run.Key != 0 {
		t.Errorf("a run that was not inserted has key %d", run.Key)
	}
	f.put(t, run)
}

func testOwnWrites(t *testing.T, f *fixture) {
	f.commit(t, nil, func(tx runtime.Tx) error {
		ctx := t.Context()
		thread, err := tx.CreateThread(runtime.Thread{Project: "project", User: "ann", ID: "main", ConversationID: "c"})
		if err != nil {
			return err
		}
		run := runOf(&thread, "run", runtime.Queued)
		if err := tx.Put(run); err != nil {
			return err
		}
		for _, status := range []runtime.Status{runtime.Running, runtime.Waiting, runtime.Completed} {
			run.Status = status
			if err := tx.Put(run); err != nil {
				return err
			}
			got, err := tx.Run(ctx, run.Key)
			equal(t, "Run", got.Status, err, status)
		}
		if err := tx.Put(&runtime.Node{RunKey: run.Key, NodeID: "n"}); err != nil {
			return err
		}
		nodes, err := tx.Nodes(ctx, run.Key)
		equal(t, "nodes", len(nodes), err, 1)
		_, err = tx.Run(ctx, run.Key+1)
		if !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("a run that does not exist: %v", err)
		}
		return nil // and what was not found is no failure
	})
}

func testNow(t *testing.T, f *fixture) {
	f.commit(t, nil, func(tx runtime.Tx) error {
		if d := time.Since(tx.Now()).Abs(); d > time.Minute {
			t.Errorf("Now is off by %v", d)
		}
		return nil
	})
}

func testCancelledRead(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Thread(ctx, thread.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("Thread: %v, want the context's error", err)
	}
	if _, err := f.Events(ctx, thread.Key, 0, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("Events: %v, want the context's error", err)
	}
	if err := f.try(ctx, nil, func(runtime.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit: %v, want the context's error", err)
	}
	f.newRun(t, thread, "run", runtime.Running)
}
