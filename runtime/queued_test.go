package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
)

// Any number of simultaneous requests fills the queue exactly to its limit, and a request that need not wait is not
// refused.
func TestQueuesAreNotOverfilledByACrowd(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]runtime.Config{
		"a user's":    {QueuePerUser: 5},
		"a project's": {QueuePerProject: 5},
		"the whole":   {QueueDepth: 5},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			cfg.RunsPerAgent = 1
			b := open(t, cfg, gated(gate))
			b.injectStore(&undone{Store: b.store, why: data.ErrConflict}) // with conflicts in the database's transactions
			b.start("at work", "gated", "x")
			if got := crowd(t, b, 50); got != 5 {
				t.Errorf("%d runs wait, want 5", got)
			}
			close(gate)
		})
	}
}

// crowd starts n runs at once on new threads, and returns how many are accepted.
func crowd(t *testing.T, b *bench, n int) (taken int) {
	t.Helper()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, errs[i] = b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "gated", ThreadID: fmt.Sprint(i), Messages: user("x")})
		})
	}
	wg.Wait()
	for _, err := range errs {
		switch refused, _ := errors.AsType[*runtime.Error](err); {
		case err == nil:
			taken++
		case refused == nil || refused.Code != "queue_full" || refused.RetryAfter <= 0:
			t.Error(err)
		}
	}
	return taken
}

// A row of the queue that does not agree with its thread's runs is repaired, and counted.
func TestQueueIsRepaired(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, path string) {
		t.Parallel()
		gate := make(chan struct{})
		cfg := runtime.Config{}
		cfg.RunsPerAgent = 1
		b := openAt(t, path, cfg, gated(gate))
		first := b.start("at work", "gated", "x")
		second := b.start("waits", "gated", "x")
		repaired := func(what string, want int64) {
			t.Helper()
			if err := b.RepairQueue(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left, err := b.store.Queue().Misplaced(t.Context(), 10); err != nil || len(left) > 0 {
				t.Errorf("%s: rows of %v are wrong, %v", what, left, err)
			}
			if n := b.Stats().Repaired; n != want {
				t.Errorf("%s: %d rows were repaired, want %d", what, n, want)
			}
		}
		repaired("as it should be", 0)
		b.exec("DELETE FROM queue")
		repaired("without a row", 1)
		b.exec("UPDATE queue SET run_key = run_key - 1")
		repaired("with another thread's run", 2)
		b.exec("UPDATE queue SET thread_key = 1000")
		repaired("with a thread that does not exist", 4)
		close(gate)
		b.wait(first.RunID, runtime.Completed)
		b.wait(second.RunID, runtime.Completed)
		repaired("at rest", 4)
	})
}
