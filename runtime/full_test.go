package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A start that takes runs over ends at damage, at a join and at a commit.
func TestStart_EndsAtWhatDoesNotPass(t *testing.T) {
	t.Parallel()
	for _, lasting := range []error{data.ErrDamaged, data.ErrDenied} {
		for _, where := range []string{"join", "commit"} {
			b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1, Grace: 1}}, agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
				return agui.WorkerOutput{}, hang(ctx)
			}})
			b.wait(b.start("main", "worker", "x").RunID, runtime.Running)
			must(t, b.Shutdown(context.Background()))
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
		must(t, b.Shutdown(context.Background()))
		u := &unjoined{Store: b.store, trouble: make(chan error, 1)}
		u.trouble <- runtime.ErrDiskFull
		b.cfg.Store = u
		var err error
		if b.Runtime, err = runtime.New(b.cfg); err != nil {
			t.Fatal(err)
		}
		must(t, b.Start(t.Context()))
		for _, err := range []error{data.ErrTooSlow, runtime.ErrUnavailable, last} {
			select {
			case u.trouble <- err:
			case <-b.Member.Fenced():
				t.Fatalf("it did not wait: %v", b.Member.Err())
			}
		}
		<-b.Member.Fenced()
		if err := b.Member.Err(); !errors.Is(err, last) || errors.Is(err, runtime.ErrFenced) {
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

func (u *unjoined) Members() data.Members { return noJoin{u.Store.Members(), u.trouble} }

// noJoin is the part Members of an unjoined store.
type noJoin struct {
	data.Members
	trouble chan error
}

func (u noJoin) Join(context.Context, string, string) error { return <-u.trouble }
