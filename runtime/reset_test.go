package runtime_test

import (
	"context"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// between is a store that has something happen once between two reads.
type between struct {
	runtime.Store
	events, thread func() // once a page without events, or a thread, was read or is about to be
}

func (s *between) Events(ctx context.Context, key, after int64, n int) ([]runtime.StoredEvent, error) {
	evs, err := s.Store.Events(ctx, key, after, n)
	if happen := s.events; happen != nil && err == nil && len(evs) == 0 {
		s.events = nil
		happen()
	}
	return evs, err
}

func (s *between) Thread(ctx context.Context, key int64) (model.Thread, error) {
	if happen := s.thread; happen != nil {
		s.thread = nil
		happen()
	}
	return s.Store.Thread(ctx, key)
}

// What is stored while a reader looks at what is left of the log is shown, and is no part of what was removed.
func TestResetEndsWhereTheLogWasRemoved(t *testing.T) {
	for _, when := range []string{"events", "thread"} {
		state := plugins.AgentFunc("counter", func(_ context.Context, run *plugins.Run) error {
			return run.State(map[string]string{"said": run.Input.Query})
		})
		b := open(t, runtime.Config{RingEvents: 1}, state)
		b.wait(b.start("main", "counter", "one").RunID, runtime.Completed)
		end := b.log("main")
		last := end[len(end)-1].ID
		b.retire(runtime.Retention{Events: day}, 2)
		s := &between{Store: b.store}
		b.injectStore(s)
		th, err := b.Thread(t.Context(), local, "main")
		if err != nil {
			t.Fatal(err)
		}
		cur, err := b.Read(t.Context(), th.Handle(), 0, false)
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if cur.After() != last {
			t.Errorf("%s: the reset ends at %d, and events are removed up to %d: %s", when, cur.After(), last, recs[0].JSON(agui.Seed))
		}
		if is, ok := recs[1].Event.(agui.StateSnapshot); !ok || string(is.Snapshot) != `{"said":"one"}` {
			t.Errorf("%s: the state before what follows is shown as %s", when, recs[1].JSON(agui.Seed))
		}
		cur.Close()
	}
}
