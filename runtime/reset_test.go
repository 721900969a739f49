package runtime_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/retention"
)

// between is a store that calls a function once between two reads.
type between struct {
	runtime.Store
	events, thread func() // called once after the read of an empty page of events, or before the read of a thread
}

func (s *between) Events(ctx context.Context, key, after int64, n int) ([]runtime.StoredEvent, error) {
	evs, err := s.Store.Events(ctx, key, after, n)
	if happen := s.events; happen != nil && err == nil && len(evs) == 0 {
		s.events = nil
		happen()
	}
	return evs, err
}

func (s *between) Thread(ctx context.Context, key int64) (data.Thread, error) {
	if happen := s.thread; happen != nil {
		s.thread = nil
		happen()
	}
	return s.Store.Thread(ctx, key)
}

// Events that are stored while a reader reads the rest of the log are shown, and do not count as removed.
func TestResetEndsWhereTheLogWasRemoved(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"events", "thread"} {
		state := plugins.AgentFunc("counter", func(_ context.Context, run *plugins.Run) error {
			return run.State(map[string]string{"said": run.Input.Query})
		})
		b := open(t, runtime.Config{RingEvents: 1}, state)
		b.wait(b.start("main", "counter", "one").RunID, runtime.Completed)
		end := b.log("main")
		last := end[len(end)-1].ID
		b.retire(retention.Retention{Events: day}, 2)
		s := &between{Store: b.store}
		b.injectStore(s)
		th := b.found("main")
		cur, err := b.Logs.Read(t.Context(), th.Handle(), 0, false)
		must(t, err)
		var once sync.Once
		more := func() {
			once.Do(func() { b.wait(b.start("main", "counter", "two").RunID, runtime.Completed) })
		}
		if when == "events" {
			s.events = more
		} else {
			s.thread = more
		}
		recs, err := cur.Next(t.Context())
		must(t, err)
		if cur.After() != last {
			t.Errorf("%s: the reset ends at %d, and events are removed up to %d: %s", when, cur.After(), last, recs[0].JSON(agui.Seed))
		}
		if is, ok := recs[1].Event.(agui.StateSnapshot); !ok || string(is.Snapshot) != `{"said":"one"}` {
			t.Errorf("%s: the state before what follows is shown as %s", when, recs[1].JSON(agui.Seed))
		}
		cur.Close()
	}
}

// parting is a store that calls a function after each commit.
type parting struct {
	runtime.Store
	then func() // nil for nothing
}

func (s *parting) Commit(ctx context.Context, n int64, b *data.Batch) error {
	err := s.Store.Commit(ctx, n, b)
	if s.then != nil && err == nil {
		s.then()
	}
	return err
}

// A reader during the deletion of a long run gets none of its remainder: its end is not a span, and its deltas do not
// apply.
func TestReaderGetsNoHalfOfARun(t *testing.T) {
	t.Parallel()
	counter := plugins.AgentFunc("counter", func(_ context.Context, run *plugins.Run) error {
		for i := range 3 {
			if err := run.State(map[string]any{"n": i, run.Input.Query: i}); err != nil {
				return err
			}
			if err := say(run, "more"); err != nil {
				return err
			}
		}
		return nil
	})
	b := open(t, runtime.Config{Limits: runtime.Limits{DeletedAtOnce: 1}, RingEvents: 1, BatchEvents: 1}, counter)
	s := &parting{Store: b.store}
	b.injectStore(s)
	b.wait(b.start("main", "counter", "one").RunID, runtime.Completed)
	b.wait(b.start("main", "counter", "two").RunID, runtime.Completed)
	ends := make(map[int64]bool)
	for _, rec := range b.log("main") {
		ends[rec.ID] = rec.Terminal()
	}
	th := b.found("main")
	resets := 0
	s.then = func() {
		for _, after := range []int64{0, 2} {
			cur, err := b.Logs.Read(t.Context(), th.Handle(), after, false)
			if err != nil {
				t.Error(err)
				return
			}
			recs, err := cur.Next(t.Context())
			if err == nil && recs[0].ID == after+1 {
				_, err = cur.Next(t.Context())
			}
			switch {
			case errors.Is(err, io.EOF): // no event has been removed yet
			case err != nil:
				t.Error(err)
			default:
				resets++
				if !ends[cur.After()] {
					t.Errorf("who reads behind %d goes on behind %d, in the middle of a run", after, cur.After())
				}
			}
			cur.Close()
		}
	}
	b.retire(retention.Retention{Events: day}, 2)
	s.then = nil
	if resets < 8 {
		t.Errorf("the runs have gone in %d parts", resets/2)
	}
}
