package runtime_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/sim/memory"
)

// A run whose process died within a second of the run's claim goes on half a minute after the start, and one such run a second, in the
// order of their claims. Meanwhile the others go on, and it can be cancelled. One that has crashed too often fails at once.
func TestSuspects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []string
		began := time.Now() // of the last process
		worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			mu.Lock()
			calls = append(calls, run.Input.Query+" after "+time.Since(began).Truncate(time.Second).String())
			mu.Unlock()
			return agui.WorkerOutput{}, hang(ctx)
		}}
		reg := new(host.Registry)
		must(t, reg.Add(worker))
		db := memory.New(time.Now)
		var store *memory.Store
		var rt *runtime.Runtime
		var dead []*runtime.Runtime
		crash := func() { // and start again
			t.Helper()
			if rt != nil {
				store.Died()
				dead = append(dead, rt)
			}
			mu.Lock()
			calls, began, store = nil, time.Now(), db.Open()
			mu.Unlock()
			var err error
			if rt, err = runtime.New(runtime.Config{Store: store, Registry: reg, Log: slog.New(slog.DiscardHandler)}); err == nil {
				err = rt.Start(t.Context())
			}
			must(t, err)
		}
		start := func(run string) {
			t.Helper()
			if _, err := rt.StartRun(t.Context(), local, runtime.StartRequest{Agent: "worker", RunID: run, ThreadID: run, Messages: user(run)}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		wants := func(after time.Duration, want ...string) {
			t.Helper()
			<-time.After(after)
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(calls))); diff != "" {
				t.Errorf("calls of the worker (-want +got):\n%s", diff)
			}
		}
		crash()
		start("old")
		<-time.After(5 * time.Second)
		for _, run := range []string{"second", "cancelled", "third"} {
			start(run)
			<-time.After(time.Millisecond)
		}
		crash()
		if _, err := rt.Cancel(t.Context(), local, "cancelled"); err != nil {
			t.Error(err)
		}
		wants(time.Minute, "old after 0s", "second after 30s", "third after 31s")
		crash() // nobody is suspected
		wants(time.Second/2, "old after 0s", "second after 0s", "third after 0s")
		crash() // everybody is
		wants(time.Minute, "old after 30s", "second after 31s", "third after 32s")
		crash()
		wants(time.Minute)
		if run, err := rt.Runs.Get(t.Context(), local, "third"); err != nil || run.Status != runtime.Failed || run.Error.Code != "crash_loop" {
			t.Errorf("the run is %s: %+v, %v", run.Status, run.Error, err)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		for _, rt := range dead {
			_ = rt.Shutdown(t.Context())
		}
	})
}
