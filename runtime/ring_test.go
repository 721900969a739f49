package runtime_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// reads counts the events of each thread's log that are read from the store.
type reads struct {
	runtime.Store
	mu sync.Mutex
	of map[int64]int
}

func (r *reads) Events(ctx context.Context, thread, after int64, limit int) ([]runtime.StoredEvent, error) {
	r.mu.Lock()
	r.of[thread]++
	r.mu.Unlock()
	return r.Store.Events(ctx, thread, after, limit)
}

// The memory of rings goes to the running threads; the threads that have been silent for longest give it up.
func TestSilentThreadsGiveTheirRingsUp(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, tokens)
	must(t, b.Shutdown(t.Context()))
	counted := &reads{Store: b.store, of: make(map[int64]int)}
	b.cfg.Store, b.cfg.RingsBytes = counted, 400_000
	var err error
	if b.Runtime, err = runtime.New(b.cfg); err != nil {
		t.Fatal(err)
	}
	must(t, b.Start(t.Context()))
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"} // the ring of each takes some 130 kB
	for _, name := range names {
		b.wait(b.start(name, "tokens", "x").RunID, runtime.Completed)
		th := b.found(name)
		held, err := b.Logs.Read(t.Context(), th, 0, true) // an open cursor keeps the ring
		must(t, err)
		defer held.Close()
		b.wait(b.start(name, "tokens", "x").RunID, runtime.Completed)
	}
	end := func(name string) int {
		th := b.found(name)
		before := counted.of[th.Key]
		r, err := b.Logs.Read(t.Context(), th, 210, false) // from the second run on
		must(t, err)
		defer r.Close()
		for err == nil {
			_, err = r.Next(t.Context())
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		return counted.of[th.Key] - before
	}
	if got := end("h"); got != 0 {
		t.Errorf("the log of the thread that was last at work was read %d times from the store", got)
	}
	if got := end("a"); got == 0 {
		t.Error("the log of the thread that has been silent for longest is still in memory")
	}
}
