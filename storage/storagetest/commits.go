package storagetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
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
		thread := &runtime.Thread{Project: "project", User: "ann", ID: "main", ConversationID: "c"}
		if err := tx.Put(thread); err != nil {
			return err
		}
		run := runOf(thread, "run", runtime.Queued)
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

// Names are found as the transaction has put them, whatever of its rows an implementation holds back.
func testOwnNames(t *testing.T, f *fixture) {
	old := f.newThread(t, "ann", "old")
	older := f.newRun(t, old, "older", runtime.Running)
	f.commit(t, nil, func(tx runtime.Tx) error {
		ctx := t.Context()
		for i, id := range []string{"a", "b", "c"} {
			if _, err := tx.ThreadByID(ctx, "project", "ann", id); !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("thread %s before it is put: %v", id, err)
			}
			if runs, err := tx.RunsByName(ctx, "project", "ann", "run "+id); len(runs) > 0 || err != nil {
				t.Errorf("run %s before it is put: %v, %v", id, runs, err)
			}
			if _, err := tx.IdempotencyKey(ctx, id); !errors.Is(err, runtime.ErrNotFound) {
				t.Errorf("key %s before it is put: %v", id, err)
			}
			thread := &runtime.Thread{Project: "project", User: "ann", ID: id, ConversationID: id}
			if err := tx.Put(thread); err != nil {
				return err
			}
			run := runOf(thread, "run "+id, runtime.Running)
			run.ThreadKey = thread.Key
			if err := tx.Put(run); err != nil {
				return err
			}
			if err := tx.Put(&runtime.IdempotencyKey{Scope: id, RunKey: run.Key}); err != nil {
				return err
			}
			if thread.Title = id; i == 1 {
				continue // nobody asks for the second
			}
			if err := tx.Put(thread, &runtime.RunName{RunKey: run.Key, Name: "again " + id}); err != nil {
				return err
			}
			got, err := tx.ThreadByID(ctx, "project", "ann", id)
			equal(t, "ThreadByID "+id, got.Key, err, thread.Key)
			equal(t, "its title", got.Title, err, id)
			for _, name := range []string{run.ID, "again " + id} {
				runs, err := tx.RunsByName(ctx, "project", "ann", name)
				equal(t, "RunsByName "+name, keys(runs), err, []int64{run.Key})
			}
			key, err := tx.IdempotencyKey(ctx, id)
			equal(t, "IdempotencyKey "+id, key.RunKey, err, run.Key)
		}
		old.Title, older.Status = "new", runtime.Completed
		if err := tx.Put(old, older); err != nil {
			return err
		}
		thread, err := tx.ThreadByID(ctx, "project", "ann", "old")
		equal(t, "the title of a thread that was there", thread.Title, err, "new")
		runs, err := tx.RunsByName(ctx, "project", "ann", "older")
		if err != nil || len(runs) != 1 || runs[0].Status != runtime.Completed {
			t.Errorf("a run that was there is %+v, %v", runs, err)
		}
		return nil
	})
}

// What is read ahead is what would be read without, until it is changed.
func testAhead(t *testing.T, f *fixture) {
	ctx := t.Context()
	thread, other, bobs := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other"), f.newThread(t, "bob", "main")
	run, next := f.newRun(t, thread, "run", runtime.Running), f.newRun(t, thread, "next", runtime.Queued)
	f.newRun(t, bobs, "run", runtime.Running)
	message := func(run *runtime.Run, id string) *runtime.Message {
		m := &runtime.Message{ThreadKey: run.ThreadKey, RunKey: run.Key, State: runtime.MessageQueued, CreatedAt: at(0)}
		m.ID, m.Role, m.Content = id, agui.RoleUser, id
		return m
	}
	first, second := message(next, "first"), message(next, "second")
	f.put(t, first, second, &runtime.IdempotencyKey{Scope: "known", RunKey: run.Key, CreatedAt: at(0)})
	name := func(id string) runtime.Name { return runtime.Name{Project: "project", User: "ann", ID: id} }

	// look is what a reader sees of all that is read ahead.
	look := func(r runtime.Reader, lock func(int64) (runtime.Thread, error)) (seen []any) {
		note := func(v any, err error) {
			if err != nil && !errors.Is(err, runtime.ErrNotFound) {
				t.Error(err)
			}
			seen = append(seen, v, err == nil)
		}
		for _, id := range []string{"main", "other", "new"} {
			found, err := r.ThreadByID(ctx, "project", "ann", id)
			note(found, err)
			note(lock(found.Key))
			note(r.OpenRuns(ctx, found.Key))
		}
		for _, id := range []string{"run", "next", "new"} {
			for _, user := range []string{"ann", ""} {
				runs, err := r.RunsByName(ctx, "project", user, id)
				note(keys(runs), err)
			}
		}
		for _, scope := range []string{"known", "new"} {
			note(r.IdempotencyKey(ctx, scope))
		}
		for _, key := range []int64{run.Key, next.Key} {
			queued, err := r.Queued(ctx, key)
			for i := range queued {
				note(queued[i].ID, err)
			}
		}
		return seen
	}
	wanted := runtime.Wanted{
		ThreadNames: []runtime.Name{name("main"), name("other"), name("new"), name("main")},
		RunNames:    []runtime.Name{name("run"), name("next"), name("new"), {Project: "project", ID: "run"}},
		Scopes:      []string{"known", "new"},
		Threads:     []int64{other.Key, other.Key + 1000},
		Runs:        []int64{run.Key, next.Key, next.Key + 1000},
	}
	put := func(tx runtime.Tx) error {
		created := &runtime.Thread{Project: "project", User: "ann", ID: "new", ConversationID: "new", CreatedAt: at(1), UpdatedAt: at(1)}
		if err := tx.Put(created); err != nil {
			return err
		}
		fresh := runOf(created, "new", runtime.Running)
		if err := tx.Put(fresh); err != nil {
			return err
		}
		thread.Title, run.Status, first.State = "changed", runtime.Completed, runtime.MessageConsumed
		return tx.Put(thread, run, first, &runtime.IdempotencyKey{Scope: "new", RunKey: fresh.Key, CreatedAt: at(1)})
	}

	before := look(f, func(key int64) (runtime.Thread, error) { return f.Thread(ctx, key) })
	var changed []any
	f.commit(t, nil, func(tx runtime.Tx) error {
		if err := tx.Ahead(wanted); err != nil {
			return err
		}
		equal(t, "read ahead", look(tx, tx.LockThread), nil, before)
		equal(t, "and again", look(tx, tx.LockThread), nil, before)
		if err := put(tx); err != nil {
			return err
		}
		changed = look(tx, tx.LockThread)
		return nil
	})
	after := look(f, func(key int64) (runtime.Thread, error) { return f.Thread(ctx, key) })
	equal(t, "changed", changed, nil, after)
	f.commit(t, nil, func(tx runtime.Tx) error {
		if err := tx.Ahead(wanted); err != nil {
			return err
		}
		if err := tx.HideMessages(thread.Key, []int64{next.Key}, 0); err != nil {
			return err
		}
		queued, err := tx.Queued(ctx, next.Key)
		equal(t, "messages that were hidden", len(queued), err, 0)
		if err := tx.DeleteRun(next.Key); err != nil {
			return err
		}
		open, err := tx.OpenRuns(ctx, thread.Key)
		equal(t, "runs that were deleted", len(open), err, 0)
		return tx.Ahead(runtime.Wanted{})
	})
}

// What is too large to be kept for long is read and written all the same.
func testLargeRows(t *testing.T, f *fixture) {
	state := json.RawMessage(`{"text":"` + strings.Repeat("x", 5<<19) + `"}`)
	var wanted runtime.Wanted
	var all []*runtime.Thread
	f.commit(t, nil, func(tx runtime.Tx) error {
		for i := range 4 {
			thread := &runtime.Thread{
				Project: "project", User: "ann", ID: fmt.Sprint(i), ConversationID: fmt.Sprint(i), State: state,
				CreatedAt: at(i), UpdatedAt: at(i),
			}
			if err := tx.Put(thread); err != nil {
				return err
			}
			run := runOf(thread, "run "+thread.ID, runtime.Running)
			run.Input = state
			if err := tx.Put(run); err != nil {
				return err
			}
			message := &runtime.Message{ThreadKey: thread.Key, RunKey: run.Key, State: runtime.MessageQueued, CreatedAt: at(i)}
			message.ID, message.Role, message.Content = "m", agui.RoleUser, "hello"
			if err := tx.Put(message); err != nil {
				return err
			}
			all = append(all, thread)
			wanted.Threads, wanted.Runs = append(wanted.Threads, thread.Key), append(wanted.Runs, run.Key)
		}
		return nil
	})
	f.commit(t, nil, func(tx runtime.Tx) error {
		if err := tx.Ahead(wanted); err != nil {
			return err
		}
		for i, want := range all {
			got, err := tx.LockThread(want.Key)
			if err != nil || got.ID != want.ID || !bytes.Equal(got.State, want.State) {
				t.Errorf("thread %s has a state of %d bytes, %v", got.ID, len(got.State), err)
			}
			open, err := tx.OpenRuns(t.Context(), want.Key)
			equal(t, "OpenRuns", len(open), err, 1)
			queued, err := tx.Queued(t.Context(), wanted.Runs[i])
			equal(t, "Queued", len(queued), err, 1)
		}
		return nil
	})
}

// testKeyOrder proves that keys ascend in the order rows are put, which lists are in.
func testKeyOrder(t *testing.T, f *fixture) {
	last := int64(0)
	for batch := range 5 {
		f.commit(t, nil, func(tx runtime.Tx) error {
			for i := range 20 {
				thread := &runtime.Thread{Project: "project", User: "ann", ID: fmt.Sprint(batch, i), ConversationID: fmt.Sprint(batch, i)}
				if err := tx.Put(thread); err != nil {
					return err
				}
				run := runOf(thread, "run "+thread.ID, runtime.Queued)
				if err := tx.Put(run); err != nil {
					return err
				}
				if run.Key <= last {
					t.Errorf("key %d follows key %d", run.Key, last)
				}
				last = run.Key
			}
			return nil
		})
		_ = f.try(t.Context(), nil, func(tx runtime.Tx) error { // whose keys may be lost
			thread := &runtime.Thread{Project: "project", User: "ann", ID: "no", ConversationID: "no"}
			_ = tx.Put(thread, runOf(thread, "no", runtime.Queued))
			return errors.New("no")
		})
	}
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
