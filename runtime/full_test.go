package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// full is a store on a disk that is full until the test frees it.
type full struct {
	faulty
	joins bool // registering an instance needs no room
	room  atomic.Bool
}

func (f *full) Join(ctx context.Context, instance, addr string) error {
	if !f.joins && !f.room.Load() {
		return runtime.ErrDiskFull
	}
	return f.Store.Join(ctx, instance, addr)
}

func (f *full) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	if !f.room.Load() {
		return runtime.ErrDiskFull
	}
	return f.faulty.Commit(ctx, n, batch)
}

// Without room a runtime starts, serves reads and reports the reason for refusing writes; with room it continues.
func TestStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, joins := range map[string]bool{"that takes no instance": false, "that takes no runs over": true} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			var again atomic.Bool
			worker := agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
				if !again.Swap(true) {
					close(begun)
					return agui.WorkerOutput{}, hang(ctx)
				}
				return agui.WorkerOutput{}, nil
			}}
			b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, worker, hello)
			s := b.start("main", "worker", "x")
			<-begun
			refused := func(what string, err error) {
				t.Helper()
				if refusal, ok := errors.AsType[*runtime.Error](err); !ok || refusal.Code != "disk_full" {
					t.Errorf("%s: %v, want disk_full", what, err)
				}
			}
			var f *full
			for range 2 { // a runtime may stop before there is room
				if err := b.Shutdown(context.Background()); err != nil {
					t.Fatal(err)
				}
				f = &full{joins: joins}
				f.Store = b.store
				b.cfg.Store = f
				var err error
				if b.Runtime, err = runtime.New(b.cfg); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if err := b.Start(ctx); err != nil {
					t.Fatal(err)
				}
				cancel()
				refused("Ready", b.Ready(t.Context()))
				_, err = b.StartRun(t.Context(), local, runtime.StartRequest{
					Agent: "hello", ThreadID: "other", Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}},
				})
				refused("StartRun", err)
				_, err = b.Cancel(t.Context(), local, s.RunID)
				refused("Cancel", err)
				refused("Delete", b.Delete(t.Context(), local, s.RunID))
				if run, err := b.Run(t.Context(), local, s.RunID); err != nil || run.Status != runtime.Running {
					t.Errorf("the run is %v, %v", run.Status, err)
				}
			}
			f.room.Store(true)
			b.wait(s.RunID, runtime.Completed)
			for b.Ready(t.Context()) != nil {
				<-tick()
			}
			b.wait(b.start("other", "hello", "x").RunID, runtime.Completed)
			checkLog(t, b.log("main"))
		})
	}
}

// A start that takes runs over ends at damage, at a join and at a commit.
func TestStart_EndsAtWhatDoesNotPass(t *testing.T) {
	t.Parallel()
	for _, lasting := range []error{data.ErrDamaged, data.ErrDenied} {
		for _, where := range []string{"join", "commit"} {
			b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
				return agui.WorkerOutput{}, hang(ctx)
			}})
			b.wait(b.start("main", "worker", "x").RunID, runtime.Running)
			if err := b.Shutdown(context.Background()); err != nil {
				t.Fatal(err)
			}
			u, f := &unjoined{Store: b.store, trouble: make(chan error, 2)}, &faulty{}
			f.Store, b.cfg.Store = b.store, u
			f.before.Store(&lasting)
			u.trouble <- data.ErrTooSlow
			if u.trouble <- lasting; where == "commit" {
				b.cfg.Store = f
			}
			var err error
			if b.Runtime, err = runtime.New(b.cfg); err != nil {
				t.Fatal(err)
			}
			if err := b.Start(t.Context()); !errors.Is(err, lasting) {
				t.Errorf("%s: %v, want %v", where, err, lasting)
			}
		}
	}
}

// A postponed start that fails is not a takeover.
func TestStartThatFailsLateSaysWhy(t *testing.T) {
	t.Parallel()
	for _, last := range []error{errors.New("the instance has no room"), data.ErrSchema} {
		b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, hello)
		if err := b.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		u := &unjoined{Store: b.store, trouble: make(chan error, 1)}
		u.trouble <- runtime.ErrDiskFull
		b.cfg.Store = u
		var err error
		if b.Runtime, err = runtime.New(b.cfg); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{data.ErrTooSlow, runtime.ErrUnavailable, last} {
			select {
			case u.trouble <- err:
			case <-b.Fenced():
				t.Fatalf("it did not wait: %v", b.Err())
			}
		}
		<-b.Fenced()
		if err := b.Err(); !errors.Is(err, last) || errors.Is(err, runtime.ErrFenced) {
			t.Errorf("got %v, want %v", err, last)
		}
		refusedAs(t, b.Ready(t.Context()), "unavailable", "could not start")
	}
}

// unjoined is a store that refuses instances with an error.
type unjoined struct {
	runtime.Store
	trouble chan error
}

func (u *unjoined) Join(context.Context, string, string) error { return <-u.trouble }
