// Package bustest is the contract of a bus.Bus: a new driver is done when it passes. Memory connects servers in one process.
package bustest

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/bus"
)

// Contract checks the buses of a cluster. join adds a server to it.
func Contract(t *testing.T, join func() bus.Bus) {
	a, b := join(), join()
	exchange := func(from bus.Bus, datagram string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
			err := from.Send(t.Context(), []byte(datagram))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("send: %v", err)
			}
		}
		for _, to := range []bus.Bus{a, b} {
			if got := receive(t, to); got != datagram {
				t.Fatalf("got %.40q of %d bytes, want %.40q of %d", got, len(got), datagram, len(datagram))
			}
		}
	}
	starts(t, a, b)
	exchange(a, "1 a 0 look=2f,3a orphans=*")
	exchange(b, "it's \\ quoted '; SELECT 1 --")
	exchange(b, strings.Repeat("x", bus.MaxBytes))
	for _, n := range []string{"first", "second", "third"} {
		exchange(a, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Receive(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("receive after ctx's end: %v", err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

// Passes sends until the bus gets its own last datagram back, so that none is left to receive, and returns the errors of Receive before.
func Passes(t *testing.T, b bus.Bus) (errs []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		last := "own " + rand.Text()
		_ = b.Send(soon, []byte(last))
		for soon.Err() == nil {
			got, err := b.Receive(soon)
			if string(got) == last {
				cancel()
				return errs
			}
			if err != nil && soon.Err() == nil {
				errs = append(errs, err)
			}
		}
		cancel()
	}
	t.Fatalf("nothing is received: %v", errs)
	return errs
}

// begin is a datagram that starts has sent; some may arrive late.
const begin = "begin"

// starts exchanges datagrams until both receive: a driver may connect with the first call.
func starts(t *testing.T, a, b bus.Bus) {
	t.Helper()
	for _, to := range []bus.Bus{a, b} {
		for heard := false; !heard; {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_ = a.Send(t.Context(), []byte(begin))
			_, err := to.Receive(ctx)
			heard = err == nil
			cancel()
		}
	}
}

func receive(t *testing.T, b bus.Bus) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		got, err := b.Receive(ctx)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if string(got) != begin {
			return string(got)
		}
	}
}
