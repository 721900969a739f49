package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// away is a store that fails reads outside of transactions for a while: the next left of them, after skip successful
// ones.
type away struct {
	runtime.Store
	skip, left atomic.Int64
}

// gone runs a read, or fails instead.
func gone[T any](a *away, read func() (T, error)) (T, error) {
	if a.skip.Add(-1) < 0 && a.left.Add(-1) >= 0 {
		var none T
		return none, fmt.Errorf("connection refused: %w", runtime.ErrUnavailable)
	}
	return read()
}

func (a *away) Thread(ctx context.Context, key int64) (data.Thread, error) {
	return gone(a, func() (data.Thread, error) { return a.Store.Thread(ctx, key) })
}

func (a *away) Queue() data.Queue { return awayQueue{a.Store.Queue(), a} }

// awayQueue is the part Queue of a store that may be away.
type awayQueue struct {
	data.Queue
	store *away
}

func (a awayQueue) Line(ctx context.Context, after data.Place, each data.Each, n int) ([]data.Place, error) {
	if a.store.skip.Load() > 0 { // looks at the queue come at any time
		return a.Queue.Line(ctx, after, each, n)
	}
	return gone(a.store, func() ([]data.Place, error) { return a.Queue.Line(ctx, after, each, n) })
}

func (a awayQueue) Orphans(ctx context.Context, thread int64, n int) ([]runtime.RunHead, error) {
	return gone(a.store, func() ([]runtime.RunHead, error) { return a.Queue.Orphans(ctx, thread, n) })
}

func (a *away) Memos(ctx context.Context, key int64, generation int) ([]runtime.Memo, error) {
	return gone(a, func() ([]runtime.Memo, error) { return a.Store.Memos(ctx, key, generation) })
}

func (a *away) Messages(ctx context.Context, key, upTo int64, n int) ([]runtime.Message, error) {
	return gone(a, func() ([]runtime.Message, error) { return a.Store.Messages(ctx, key, upTo, n) })
}

func (a *away) Events(ctx context.Context, key, after int64, n int) ([]runtime.StoredEvent, error) {
	return gone(a, func() ([]runtime.StoredEvent, error) { return a.Store.Events(ctx, key, after, n) })
}

func (a *away) LastEventID(ctx context.Context, key int64) (int64, error) {
	return gone(a, func() (int64, error) { return a.Store.LastEventID(ctx, key) })
}

func (a *away) Spans(ctx context.Context, key int64) ([]runtime.Span, error) {
	return gone(a, func() ([]runtime.Span, error) { return a.Store.Spans(ctx, key) })
}

func TestOutageEndsWithTheRunThatWaitsForIt(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.start("main", "hello", "before").RunID, runtime.Completed)
	store := &away{Store: b.store}
	b.injectStore(store)
	store.left.Store(1 << 40)
	s := b.start("main", "hello", "x")
	for store.left.Load() > 1<<40-3 {
		<-tick()
		if r, err := b.Runs.Get(t.Context(), local, s.RunID); err != nil || r.Status.Final() {
			t.Fatalf("the run has not waited: %s, %v", r.Status, err)
		}
	}
	run, err := b.Cancel(t.Context(), local, s.RunID)
	if err != nil || run.Status != runtime.Cancelled {
		t.Errorf("run %s, %v", run.Status, err)
	}
	store.left.Store(0)
	checkLog(t, b.log("main"))
}

// Records that a stream has read, and could not show without the state before them, come with the next call.
func TestReaderThatCannotReadTheStateLosesNothing(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.start("main", "hello", "one").RunID, runtime.Completed)
	store := &away{Store: b.store}
	b.injectStore(store)
	messages := []agui.Message{{ID: "m", Role: agui.RoleUser, Content: "two"}}
	req := runtime.StartRequest{ThreadID: "main", RunID: "second", Agent: "hello", BodyHash: "h", Messages: messages}
	if _, err := b.StartRun(t.Context(), local, req); err != nil {
		t.Fatal(err)
	}
	b.wait("second", runtime.Completed)
	again, err := b.StartRun(t.Context(), local, req)
	if err != nil || !again.Replayed {
		t.Fatalf("the repeat: %+v, %v", again, err)
	}
	cur, err := b.Logs.ReadRun(t.Context(), again)
	must(t, err)
	defer cur.Close()
	store.skip.Store(1) // the reads of the events
	store.left.Store(1)
	if recs, err := cur.Next(t.Context()); err == nil || cur.Ended() {
		t.Fatalf("got %d records, %v", len(recs), err)
	}
	recs, err := cur.Next(t.Context())
	if err != nil || recs[0].Event.Type() != agui.TypeRunStarted || !recs[len(recs)-1].Terminal() {
		t.Errorf("got %d records, %v, want the whole span", len(recs), err)
	}
}

// Shutdown ends a start that still waits for its database.
func TestShutdownDoesNotWaitForAStartWithoutADatabase(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, hello)
	must(t, b.Shutdown(context.Background()))
	late := &fullThenAway{away: away{Store: b.store}}
	late.left.Store(1 << 40)
	late.full.Store(true)
	b.cfg.Store = late
	var err error
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		t.Fatal(err)
	}
	must(t, b.Start(t.Context()))
	late.full.Store(false)
	for late.left.Load() == 1<<40 {
		<-tick()
	}
	if err := b.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// fullThenAway is a store that has no room for an instance while full is set, and is away afterwards.
type fullThenAway struct {
	away
	full atomic.Bool
}

func (f *fullThenAway) Members() data.Members { return roomless{f.Store.Members(), f} }

// roomless is the part Members of a store that may be full.
type roomless struct {
	data.Members
	store *fullThenAway
}

func (r roomless) Join(ctx context.Context, instance, addr string) error {
	if r.store.full.Load() {
		return runtime.ErrDiskFull
	}
	return r.Members.Join(ctx, instance, addr)
}
