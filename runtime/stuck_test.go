package runtime_test

import (
	"bytes"
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A snapshot that waits for a run's events is refused as soon as the database does not commit, and not only once it
// does again.
func TestSnapshotThatWaitsIsRefusedWhenTheDatabaseGoes(t *testing.T) {
	step := make(chan struct{})
	worker := agent{"worker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		<-step
		return agui.WorkerOutput{}, run.State(map[string]int{"n": 1})
	}}
	b := open(t, runtime.Config{}, worker)
	s := &stuck{Store: b.store, asked: make(chan struct{}), end: make(chan struct{})}
	b.injectStore(s)
	run := b.start("main", "worker", "x")
	th := b.found("main")
	s.mu.Lock()
	s.hangs = true
	s.mu.Unlock()
	close(step)
	<-s.asked // a commit hangs, and the runtime has not noticed the outage yet
	got := make(chan error, 1)
	go func() {
		_, err := b.Logs.Snapshot(t.Context(), th)
		got <- err
	}()
	for deadline := time.Now().Add(patience); !waits("work.(*Engine).await("); <-tick() {
		if time.Now().After(deadline) {
			t.Fatal("it does not wait")
		}
	}
	s.fail()
	select {
	case err := <-got:
		if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "unavailable" {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Error("it waits while the database does not commit")
	}
	s.recover()
	b.wait(run.RunID, runtime.Completed)
}

// waits reports whether a goroutine is in the function.
func waits(function string) bool {
	buf := make([]byte, 1<<20)
	return bytes.Contains(buf[:goruntime.Stack(buf, true)], []byte(function))
}

// stuck is a store with commits that hang, then fail, and finally succeed.
type stuck struct {
	runtime.Store
	asked chan struct{}
	end   chan struct{}

	mu           sync.Mutex // guards the fields below
	hangs, fails bool
	once         sync.Once
}

func (s *stuck) Commit(ctx context.Context, n int64, b *data.Batch) error {
	s.mu.Lock()
	hangs, fails := s.hangs, s.fails
	s.mu.Unlock()
	if hangs {
		s.once.Do(func() { close(s.asked) })
		<-s.end
		fails = true
	}
	if fails {
		return runtime.ErrUnavailable
	}
	return s.Store.Commit(ctx, n, b)
}

func (s *stuck) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs, s.fails = false, true
	close(s.end)
}

func (s *stuck) recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = false
}
