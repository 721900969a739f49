package storagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func testCommitOnce(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, other := f.newRun(t, thread, "run", data.Running), f.runOf(t, thread, "other", data.Queued)
	said := &data.Node{RunKey: run.Key, NodeID: "n"}
	called := 0
	for range 3 {
		err := f.Commit(t.Context(), f.n+1, &data.Batch{
			Events: events(run, 1, 3), Rows: []data.Row{said}, Asks: []data.Ask{{Thread: thread.Key}},
			Decide: func(_ int, v *data.View) data.Changes {
				called++
				if d := time.Since(v.Now).Abs(); d > time.Minute {
					t.Errorf("Now is off by %v", d)
				}
				return data.Changes{Events: events(run, 4, 4), Rows: []data.Row{other, named(other)}}
			},
		})
		if err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
	f.n++
	for range 3 {
		if err := f.Commit(t.Context(), f.n+1, &data.Batch{Events: events(run, 5, 6)}); err != nil {
			t.Fatalf("Commit of events alone: %v", err)
		}
	}
	f.n++
	if called != 1 {
		t.Errorf("the decision was taken %d times", called)
	}
	got, err := f.Events(t.Context(), thread.Key, 0, 100)
	equal(t, "Events", got, err, events(run, 1, 6))
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "open runs", len(open), err, 2)
	nodes, err := f.Nodes(t.Context(), run.Key)
	equal(t, "nodes", len(nodes), err, 1)
	f.commit(t, nil) // of nothing
	f.commit(t, nil)
}

// A number that does not follow belongs to another database, or to an older one.
func testCommitNumber(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	f.put(t, &data.RunCrashes{Key: run.Key})
	f.commit(t, nil)
	for _, n := range []int64{f.n - 1, f.n + 2} {
		for _, b := range []*data.Batch{
			{Rows: []data.Row{&data.RunCrashes{Key: run.Key}}}, {Events: events(run, 1, 1)}, {},
		} {
			if err := f.Commit(t.Context(), n, b); !errors.Is(err, data.ErrFenced) {
				t.Errorf("commit %d after %d: %v, want ErrFenced", n, f.n, err)
			}
		}
	}
	last, err := f.LastEventID(t.Context(), run.ThreadKey)
	equal(t, "LastEventID", last, err, 0)
	f.commit(t, events(run, 1, 1))
}

func testFence(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	f.commit(t, events(run, 1, 1))
	if err := f.Members().Fence(t.Context(), "instance-1"); err != nil {
		t.Fatalf("Fence: %v", err)
	}
	if err := f.Commit(t.Context(), f.n, &data.Batch{Events: events(run, 1, 1)}); err != nil {
		t.Errorf("a batch committed before the fence: %v", err)
	}
	for _, b := range []*data.Batch{
		{Events: events(run, 2, 2)},
		{Events: events(run, 2, 2), Rows: []data.Row{&data.RunCrashes{Key: run.Key}}},
		{Asks: []data.Ask{{Thread: run.ThreadKey}}, Decide: func(int, *data.View) data.Changes {
			t.Error("a decision was taken")
			return data.Changes{}
		}},
	} {
		if err := f.Commit(t.Context(), f.n+1, b); !errors.Is(err, data.ErrFenced) {
			t.Errorf("Commit: %v, want ErrFenced", err)
		}
	}
	got, err := f.Events(t.Context(), run.ThreadKey, 0, 100)
	equal(t, "Events", len(got), err, 1)

	if err := f.Members().Join(t.Context(), "instance-2", ""); err != nil {
		t.Fatalf("Join again: %v", err)
	}
	f.n = 0
	f.commit(t, events(run, 2, 2))
	f.newRun(t, f.newThread(t, "ann", "other"), "other", data.Running)
}

// testBadRows has one bad row among others refused, among the rows of the batch and of a decision.
func testBadRows(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Running)
	for what, bad := range map[string]data.Row{
		"text":             &data.Node{RunKey: run.Key, NodeID: "a\x00b"},
		"a key twice":      thread,
		"a run twice":      run,
		"no key":           &data.Run{RunHead: data.RunHead{ThreadKey: thread.Key}},
		"JSON of no value": &data.Message{ThreadKey: thread.Key, State: data.MessageQueued, Message: badMessage},
	} {
		other := f.runOf(t, thread, "other", data.Queued)
		rows := []data.Row{other, named(other), bad}
		wantDataError(t, f.try(t.Context(), &data.Batch{Events: events(run, 1, 1), Rows: rows}))
		err := f.try(t.Context(), &data.Batch{
			Events: events(run, 1, 1), Asks: make([]data.Ask, 2),
			Decide: func(i int, _ *data.View) data.Changes { return data.Changes{Rows: rows[2*i : 2+i]} },
		})
		wantDataError(t, err)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	got, err := f.Events(t.Context(), thread.Key, 0, 10)
	equal(t, "events", len(got), err, 0)
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", headKeys(open), err, []int64{run.Key})
	f.newRun(t, thread, "other", data.Queued)
}

// badMessage cannot be stored: its metadata are no JSON.
var badMessage = agui.Message{ID: "m", Role: agui.RoleUser, Content: "c", Metadata: json.RawMessage("{")}

func testPanic(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.runOf(t, thread, "run", data.Queued)
	func() {
		defer func() { _ = recover() }()
		_ = f.try(t.Context(), &data.Batch{
			Rows: []data.Row{run, named(run)}, Asks: make([]data.Ask, 1),
			Decide: func(int, *data.View) data.Changes { panic("decide") },
		})
		t.Error("the panic did not pass")
	}()
	f.put(t, run, named(run))
}

func testRefusal(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	runs := []*data.Run{f.runOf(t, thread, "a", data.Queued), f.runOf(t, thread, "b", data.Queued)}
	err := f.try(t.Context(), &data.Batch{
		Asks: []data.Ask{{Thread: thread.Key}, {Thread: thread.Key}, {Thread: thread.Key}},
		Decide: func(i int, v *data.View) data.Changes {
			if i == 1 {
				return data.Changes{Refused: data.Refuse(data.KindConflict, "no", "No")}
			}
			return data.Changes{Rows: []data.Row{runs[i/2]}}
		},
	})
	if err != nil {
		t.Fatalf("Commit: %v, want it to succeed beside a refusal", err)
	}
	open, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", headKeys(open), err, []int64{runs[0].Key, runs[1].Key})
}

// testKeys takes keys from many goroutines, also while a commit is under way. They do not wait for it.
func testKeys(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	var mu sync.Mutex // guards the two below
	runs, threads := map[int64]bool{}, map[int64]bool{thread.Key: true}
	take := func() {
		for range 50 {
			run, err := f.NewRunKey(t.Context())
			if err != nil {
				t.Error(err)
			}
			thread, err := f.NewThreadKey(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			if runs[run] || threads[thread] || run <= 0 || thread <= 0 {
				t.Errorf("keys %d and %d come again", run, thread)
			}
			runs[run], threads[thread] = true, true
			mu.Unlock()
		}
	}
	err := f.try(t.Context(), &data.Batch{
		Asks: []data.Ask{{Thread: thread.Key}},
		Decide: func(int, *data.View) data.Changes {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(take)
			}
			wg.Wait()
			return data.Changes{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Members().Leave(t.Context()), f.Members().Join(t.Context(), "instance-2", "")); err != nil {
		t.Fatal(err)
	}
	f.n = 0
	take()
}

// testKeyOrder proves that keys ascend: lists are ordered by them.
func testKeyOrder(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	last := int64(0)
	for i := range 100 {
		run := f.newRun(t, thread, fmt.Sprint(i), data.Queued)
		if run.Key <= last {
			t.Errorf("key %d follows key %d", run.Key, last)
		}
		last = run.Key
	}
}

func testCancelled(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Thread(ctx, thread.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("Thread: %v, want the context's error", err)
	}
	if _, err := f.Events(ctx, thread.Key, 0, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("Events: %v, want the context's error", err)
	}
	if err := f.try(ctx, &data.Batch{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit: %v, want the context's error", err)
	}
	f.newRun(t, thread, "run", data.Running)
}
