package commit_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime/commit"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/decide"
)

// locking is a database in which other instances have locked threads.
type locking struct {
	store
	mu      sync.Mutex // guards the fields below
	locked  map[int64]bool
	awaited []int64 // the threads that commits were to wait for
	decided []int64
}

func newLocking(locked ...int64) *locking {
	l := &locking{locked: make(map[int64]bool)}
	for _, thread := range locked {
		l.locked[thread] = true
	}
	l.commit = func(_ int64, b *data.Batch) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.apply(b)
		return nil
	}
	return l
}

// apply makes an attempt that may be committed.
func (l *locking) apply(b *data.Batch) {
	b.Deferred = nil
	for i := range b.Asks {
		thread := b.Asks[i].Thread
		if b.Asks[i].Await {
			l.awaited = append(l.awaited, thread)
		}
		if l.locked[thread] {
			b.Deferred = append(b.Deferred, i)
			continue
		}
		b.Decide(i, &data.View{Exists: true, Thread: data.ThreadHead{Key: thread}})
		l.decided = append(l.decided, thread)
	}
}

func (l *locking) lock(thread int64, locked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.locked[thread] = locked
}

// look is a command of the engine that must be decided.
func look(thread int64) *commit.Item { return &commit.Item{Command: &decide.Look{Thread: thread}} }

// started decides an item in the background.
func started(q *commit.Queue, it *commit.Item) <-chan error {
	done := make(chan error, 1)
	it.Done = append(it.Done, func(err error) { done <- err })
	q.Add(it)
	return done
}

func TestDeferred_WaitsAndDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLocking(1)
		var shown []int64
		q := open(t, &db.store, commit.Config{Show: func(batch []*commit.Item) {
			for _, it := range batch {
				shown = append(shown, it.Out.Thread)
			}
		}})
		waits, other := look(1), look(2)
		done, free := started(q, waits), started(q, other)
		if err := <-free; err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute) // however long: the engine's commands must be decided
		synctest.Wait()
		if len(done) > 0 || waits.Out != nil || waits.Err != nil {
			t.Fatalf("a command about a locked thread got %v, %v", waits.Out, waits.Err)
		}
		if !slices.Contains(db.awaited, 1) || slices.Contains(db.awaited, 2) {
			t.Errorf("commits have waited for %v, want only for 1", db.awaited)
		}
		db.lock(1, false)
		if err := <-done; err != nil || waits.Out == nil {
			t.Errorf("once the thread is free: %v", err)
		}
		if want := []int64{2, 1}; !slices.Equal(shown, want) || !slices.Equal(db.decided, want) {
			t.Errorf("decided %v, shown %v, want %v", db.decided, shown, want)
		}
	})
}

func TestDeferred_PausesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLocking(1)
		began := time.Now()
		var at []time.Duration
		apply := db.commit
		db.commit = func(n int64, b *data.Batch) error {
			at = append(at, time.Since(began))
			if db.lock(1, len(at) < 6); len(db.awaited) > 0 != (len(at) > 4) {
				t.Errorf("attempt %d: commits have waited for %v", len(at), db.awaited)
			}
			return apply(n, b)
		}
		q := open(t, &db.store, commit.Config{})
		if err := q.Decide(look(1)); err != nil {
			t.Fatal(err)
		}
		const ms = time.Millisecond
		if want := []time.Duration{0, 2 * ms, 6 * ms, 14 * ms, 30 * ms, 62 * ms}; !slices.Equal(at, want) {
			t.Errorf("tried at %v, want %v", at, want)
		}
	})
}

// Commands of clients and of sweeps are given up: they are repeated.
func TestDeferred_RepeatedCommandGivesUp(t *testing.T) {
	t.Parallel()
	for _, cmd := range []decide.Command{
		&decide.Start{New: true}, &decide.Patch{Thread: 1}, &decide.TakeOver{Thread: 1}, &decide.Expire{Thread: 1},
		&decide.Finish{Thread: 1, Last: 7}, &decide.Finish{Thread: 1, Basis: new(decide.Basis)}, // runs that no instance executes
	} {
		synctest.Test(t, func(t *testing.T) {
			db := newLocking(0, 1) // a new thread has no key
			q := open(t, &db.store, commit.Config{})
			began := time.Now()
			err := q.Decide(&commit.Item{Command: cmd})
			refusal, ok := errors.AsType[*data.Error](err)
			if !ok || refusal.Code != "thread_contended" || refusal.Kind != data.KindUnavailable || refusal.RetryAfter == 0 {
				t.Errorf("%T: got %v, want thread_contended", cmd, err)
			}
			if d := time.Since(began); d < 2*time.Second || d > 3*time.Second {
				t.Errorf("%T: gave up after %v", cmd, d)
			}
		})
	}
}

// The answer to a commit is lost. Only an attempt that was committed says which commands were decided.
func TestDeferred_LostCommit(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprint("written ", written), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, attempts := newLocking(1), 0
				apply := db.commit
				db.commit = func(n int64, b *data.Batch) error {
					switch attempts++; attempts {
					case 1:
						return cmp.Or(apply(n, b), data.ErrUnavailable)
					case 2:
						if !written { // another instance has the other thread now
							db.lock(2, true)
							return apply(n, b)
						}
						return nil
					}
					return apply(n, b)
				}
				q := open(t, &db.store, commit.Config{})
				first, second := look(1), look(2)
				locked, free := started(q, first), started(q, second)
				<-time.After(time.Second)
				if len(locked) > 0 || len(free) > 0 != written {
					t.Fatalf("acknowledged: the locked thread %d, the other %d", len(locked), len(free))
				}
				db.lock(1, false)
				db.lock(2, false)
				if err := cmp.Or(<-locked, <-free); err != nil || first.Out == nil || second.Out == nil {
					t.Errorf("once the threads are free: %v", err)
				}
				want := []int64{2, 1}
				if !written { // the attempt that was rolled back, then both
					want = []int64{2, 1, 2}
				}
				if slices.Sort(db.decided[1:]); !slices.Equal(db.decided, want) {
					t.Errorf("decided %v, want %v", db.decided, want)
				}
			})
		})
	}
}

func TestDeferred_QueueEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newLocking(1, 2)
		q := open(t, &db.store, commit.Config{})
		done := started(q, look(1))
		synctest.Wait()
		q.Finish() // it waits for the command
		db.lock(1, false)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if q.Alive() {
			t.Error("the queue goes on")
		}
		db.renew = func() error { return data.ErrFenced }
		q = open(t, &db.store, commit.Config{Heartbeat: time.Second})
		if err := q.Decide(look(2)); !errors.Is(err, data.ErrFenced) {
			t.Errorf("fenced: %v", err)
		}
	})
}
