package bus_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batonrun/baton/runtime/bus"
	"github.com/batonrun/baton/runtime/bus/bustest"
)

func TestMemory_IsABus(t *testing.T) {
	t.Parallel()
	bustest.Contract(t, new(bustest.Memory).Join)
}

// linked begins the link of one of two servers, which wants threads. It ends with the test.
func linked(ctx context.Context, all *sync.WaitGroup, b bus.Bus, name string, wants ...int64) *bus.Link {
	return linkedOf(ctx, all, func() bool { return false }, b, name, wants...)
}

func linkedOf(ctx context.Context, all *sync.WaitGroup, alone func() bool, b bus.Bus, name string, wants ...int64) *bus.Link {
	l := bus.NewLink(b, name, alone)
	all.Go(func() {
		l.Run(ctx, func(kind bus.Kind, _ int) []int64 {
			if kind == bus.Watch {
				return []int64{70}
			}
			return wants
		})
	})
	return l
}

// apart calls f with a bus in a bubble with its own time, and ends all links.
func apart(t *testing.T, f func(ctx context.Context, all *sync.WaitGroup, m *bustest.Memory)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		f(ctx, &all, new(bustest.Memory))
		cancel()
		all.Wait()
	})
}

// sleep lets the bubble's time go on.
func sleep(d time.Duration) { <-time.After(d); synctest.Wait() }

func TestLink_TellsOthersWhatTheyWant(t *testing.T) {
	t.Parallel()
	apart(t, func(ctx context.Context, all *sync.WaitGroup, m *bustest.Memory) {
		a, b := linked(ctx, all, m.Join(), "a"), linked(ctx, all, m.Join(), "b", 7)
		sleep(10 * time.Second)
		if !a.Hears() || !b.Hears() || a.Stats().Deaf {
			t.Fatal("they do not hear")
		}
		a.Take()
		b.Take()
		sent := a.Stats().Sent
		for thread := range int64(10) {
			for range 100 {
				a.News(thread)
				a.Changed(10 * thread)
			}
		}
		a.Hint(bus.Cancel, 3)
		sleep(20 * time.Millisecond)
		h := b.Take()
		if !slices.Equal(h[bus.Look].List(), []int64{7}) || !slices.Equal(h[bus.Cancel].List(), []int64{3}) || !slices.Equal(h[bus.Changed].List(), []int64{70}) {
			t.Errorf("look %v, cancel %v, changed %v", h[bus.Look].List(), h[bus.Cancel].List(), h[bus.Changed].List())
		}
		if n := a.Stats().Sent - sent; n > 2 {
			t.Errorf("%d datagrams", n)
		}
		if own := a.Take(); !own[bus.Cancel].Empty() {
			t.Error("its own hints have come back")
		}
		b.Hint(bus.Want, 8) // at once, not with the next beat
		sleep(20 * time.Millisecond)
		a.News(8)
		sleep(20 * time.Millisecond)
		if h := b.Take(); !slices.Equal(h[bus.Look].List(), []int64{8}) {
			t.Errorf("look %v", h[bus.Look].List())
		}
		sleep(5 * time.Second) // it has not repeated that
		a.News(8)
		sleep(20 * time.Millisecond)
		if h := b.Take(); !h[bus.Look].Empty() {
			t.Errorf("look %v", h[bus.Look].List())
		}
	})
}

// At most a hundred datagrams a second go out, and none while no other server lives.
func TestLink_SendsRarely(t *testing.T) {
	t.Parallel()
	apart(t, func(ctx context.Context, all *sync.WaitGroup, m *bustest.Memory) {
		var alone atomic.Bool
		alone.Store(true)
		a := linkedOf(ctx, all, alone.Load, m.Join(), "a")
		for key := range int64(1000) {
			a.Hint(bus.Cancel, key)
			sleep(time.Millisecond)
		}
		if s := a.Stats(); s.Sent > 0 || s.Lost > 0 || s.Deaf || a.Hears() {
			t.Errorf("alone: %+v, hears %v", s, a.Hears())
		}
		alone.Store(false)
		b := linked(ctx, all, m.Join(), "b")
		sleep(2 * time.Second)
		sent := a.Stats().Sent
		for key := range int64(1000) {
			a.Hint(bus.Cancel, key)
			sleep(time.Millisecond)
		}
		if n := a.Stats().Sent - sent; n < 50 || n > 110 {
			t.Errorf("%d datagrams in a second", n)
		}
		sleep(20 * time.Millisecond)
		if h := b.Take(); !h[bus.Cancel].All { // they are more than fit
			t.Errorf("%d of 1000 hints have arrived", len(h[bus.Cancel].List()))
		}
	})
}

// A link is deaf while its own datagrams do not come back in time, and looks at all when they do again.
func TestLink_KnowsThatItIsDeaf(t *testing.T) {
	t.Parallel()
	apart(t, func(ctx context.Context, all *sync.WaitGroup, m *bustest.Memory) {
		var fault atomic.Pointer[bustest.Fault]
		fault.Store(&bustest.Fault{Lost: true})
		m.Fault = func() bustest.Fault { return *fault.Load() }
		a := linked(ctx, all, m.Join(), "a")
		linked(ctx, all, m.Join(), "b")
		hears := func(what string, want bool) {
			t.Helper()
			sleep(10 * time.Second)
			if a.Hears() != want || a.Stats().Deaf == want {
				t.Errorf("%s: hears %v", what, a.Hears())
			}
		}
		hears("lost", false)
		fault.Store(&bustest.Fault{Doubled: true, Delay: 100 * time.Millisecond})
		hears("doubled", true)
		if h := a.Take(); !h[bus.Look].All || !h[bus.Changed].All || !h[bus.Revoked].All {
			t.Error("it does not look at all")
		}
		fault.Store(&bustest.Fault{Delay: 3 * time.Second})
		hears("late", false)
	})
}

// broken is a bus that fails.
type broken struct {
	bus.Bus
	fails atomic.Bool
}

var errBroken = errors.New("broken")

func (b *broken) Send(ctx context.Context, d []byte) error {
	if b.fails.Load() {
		return errBroken
	}
	return b.Bus.Send(ctx, d)
}

func (b *broken) Receive(ctx context.Context) ([]byte, error) {
	if b.fails.Load() {
		return nil, errBroken
	}
	return b.Bus.Receive(ctx)
}

// Hints that could not be sent are sent later, and the last ones before the link ends.
func TestLink_RepeatsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	apart(t, func(ctx context.Context, all *sync.WaitGroup, m *bustest.Memory) {
		to := &broken{Bus: m.Join()}
		stopped, stop := context.WithCancel(ctx)
		a, b := linked(stopped, all, to, "a"), linked(ctx, all, m.Join(), "b")
		sleep(2 * time.Second)
		to.fails.Store(true)
		a.Hint(bus.Inbox, 5)
		sleep(5 * time.Second)
		if s := a.Stats(); s.Lost == 0 || a.Hears() {
			t.Errorf("%+v, hears %v", s, a.Hears())
		}
		to.fails.Store(false)
		a.HintAll(bus.Orphans)
		stop()
		sleep(time.Second)
		if h := b.Take(); !slices.Equal(h[bus.Inbox].List(), []int64{5}) || !h[bus.Orphans].All {
			t.Errorf("inbox %v, orphans %v", h[bus.Inbox].List(), h[bus.Orphans].All)
		}
	})
}

// A server without a bus has a link that does nothing.
func TestLink_MayBeNil(t *testing.T) {
	t.Parallel()
	l := bus.NewLink(nil, "a", nil)
	l.Run(t.Context(), nil)
	l.Hint(bus.Cancel, 1)
	l.HintAll(bus.Orphans)
	l.News(1)
	l.Changed(1)
	if l.Hears() || l.Arrived() != nil || l.Stats() != (bus.Stats{}) {
		t.Error("it does something")
	}
}
