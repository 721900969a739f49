package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/plugins/host"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/sim/memory"
)

// keeper is a store that counts the reads of a secret, and fails on demand.
type keeper struct {
	data.Saved
	fails atomic.Pointer[error]
	asked atomic.Int64
}

func (k *keeper) Secret(ctx context.Context, purpose string) (string, error) {
	k.asked.Add(1)
	if err := k.fails.Load(); err != nil {
		return "", fmt.Errorf("read: %w", *err)
	}
	return k.Saved.Secret(ctx, purpose)
}

// kept is a store with a keeper of its secrets.
type kept struct {
	runtime.Store
	keeper *keeper
}

func (s kept) Saved() data.Saved { return s.keeper }

func TestSecretIsReadOnceUnlessThatFails(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	k := &keeper{Saved: b.store.Saved()}
	b.injectStore(kept{b.store, k})
	for want, away := range map[string]error{"unavailable": runtime.ErrUnavailable, "disk_full": runtime.ErrDiskFull} {
		k.fails.Store(&away)
		if got, err := b.Secrets.Secret(t.Context(), "x"); code(err) != want {
			t.Errorf("%v: %q, %v", away, got, err)
		}
	}
	k.fails.Store(nil)
	first, err := b.Secrets.Secret(t.Context(), "x")
	must(t, err)
	asked := k.asked.Load()
	k.fails.Store(new(runtime.ErrUnavailable))
	if got, err := b.Secrets.Secret(t.Context(), "x"); got != first || err != nil || k.asked.Load() != asked {
		t.Errorf("%q, %v, read %d times, want %q", got, err, k.asked.Load(), first)
	}
}

// Of two servers on a database, one resets the secrets, or another program does.
func TestSecret_ResetIsSeenWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(time.Now)
		server := func() *runtime.Runtime {
			rt, err := runtime.New(runtime.Config{Store: db.Open(), Registry: new(host.Registry)})
			must(t, err)
			return rt
		}
		one, other := server(), server()
		read := func(rt *runtime.Runtime, purpose string) string {
			t.Helper()
			secret, err := rt.Secrets.Secret(t.Context(), purpose)
			must(t, err)
			return secret
		}
		before := map[string]string{"x": read(one, "x"), "y": read(one, "y")}
		for purpose, secret := range before {
			if got := read(other, purpose); got != secret {
				t.Errorf("%s: %q and %q", purpose, secret, got)
			}
		}
		<-time.After(59 * time.Second) // of the bubble's clock
		must(t, one.Secrets.Reset(t.Context()))
		<-time.After(time.Second)
		for purpose, secret := range before {
			fresh := read(one, purpose)
			if fresh == secret {
				t.Errorf("%s is as it was where it was reset", purpose)
			}
			if got := read(other, purpose); got != fresh {
				t.Errorf("%s: %q on the other server, want %q", purpose, got, fresh)
			}
		}
		fresh := read(one, "x")
		must(t, db.Open().Saved().RemoveSecrets(t.Context()))
		<-time.After(time.Minute)
		if got := read(other, "x"); got == fresh || got != read(one, "x") {
			t.Errorf("a minute after a command has reset it, it is %q, was %q", got, fresh)
		}
	})
}
