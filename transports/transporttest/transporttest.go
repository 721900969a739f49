// Package transporttest is the contract of transports as a suite: every view of a thread's log shows the same events under the same
// ids, live and afterwards, from any position, also after a restart of the server. It is also the kit for tests of transports: a
// server, clients and measurements.
package transporttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// Event is an event as a client gets it.
type Event struct {
	ID   int64
	Body any // its JSON, decoded
}

// View is a way to read a thread's log.
type View struct {
	// Projection is the form of the events.
	Projection agui.Projection
	// Read returns the events of the scene's thread behind after until the log ends, as the transport's
	// clients get them. A view that shows the log run by run may return them in any order.
	Read func(t *testing.T, s *Scene, after int64) []Event
	// FirstSpans is set for a view of the answers to requests for runs: the first span of each run, with the state it begins
	// with, as the requests contain none.
	FirstSpans bool
	// NoIDs is set when the events come without ids: their order alone counts.
	NoIDs bool
	// Step is between two of the places that the log is read from, default 1: every place.
	Step int
}

// Run plays the scene on a server with the plugins of package builtin, and looks at it through the views.
// Start starts the server; called again it starts another one on the same database, after the first has been
// stopped.
func Run(t *testing.T, start func(t *testing.T) *Server, views map[string]View) {
	s := &Scene{Server: start(t), t: t, seen: make(map[string][]Event)}
	live := s.watch(views)
	s.play()
	log := s.log()
	live()
	for name, v := range views {
		t.Run(name+" live", func(t *testing.T) { compare(t, v.want(log, 0), s.seen[name]) })
	}
	s.Stop()
	s.Server = start(t)
	for name, v := range views {
		t.Run(name+" afterwards", func(t *testing.T) {
			for after := int64(0); after <= int64(len(log)); after += int64(cmp.Or(v.Step, 1)) {
				compare(t, v.want(log, after), v.read(t, s, after))
				if t.Failed() {
					t.Fatalf("read from %d on", after)
				}
				if v.FirstSpans {
					break // it has no cursor
				}
			}
		})
	}
}

// watch has every view read the scene while it is played, each time again where it ended. The function it
// returns waits until all have seen the end.
func (s *Scene) watch(views map[string]View) func() {
	var watching sync.WaitGroup
	var mu sync.Mutex
	s.over = make(chan struct{})
	s.begun = make(chan struct{})
	for name, v := range views {
		watching.Go(func() {
			<-s.begun
			var seen []Event
			for last := false; ; {
				after := int64(0)
				if n := len(seen); n > 0 && !v.FirstSpans {
					after = seen[n-1].ID
				}
				if v.FirstSpans {
					seen = nil
				}
				seen = append(seen, v.read(s.t, s, after)...)
				if last || s.t.Failed() {
					break
				}
				select {
				case <-s.over:
					last = true
				default:
				}
			}
			mu.Lock()
			defer mu.Unlock()
			s.seen[name] = seen
		})
	}
	return func() {
		close(s.over)
		watching.Wait()
	}
}

// read is Read, in the order of the ids.
func (v *View) read(t *testing.T, s *Scene, after int64) []Event {
	t.Helper()
	evs := v.Read(t, s, after)
	slices.SortStableFunc(evs, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	return evs
}

// want is the view's expected events of the log.
func (v *View) want(log []*runtime.Record, after int64) []Event {
	var want []Event
	spans := make(map[string]int)
	f := fold.New(nil, nil)
	for _, r := range log {
		run := r.Event.Common().RunID
		state := f.State()
		_, _ = f.Apply(r.Event)
		if r.Event.Type() == agui.TypeRunStarted {
			spans[run]++
		}
		if r.ID <= after || v.FirstSpans && spans[run] > 1 {
			continue
		}
		body := r.JSON(v.Projection)
		if body == nil {
			continue
		}
		ev := Event{r.ID, Decode(body)}
		if v.NoIDs {
			ev.ID = 0
		}
		want = append(want, ev)
		if v.FirstSpans && r.Event.Type() == agui.TypeRunStarted && string(state) != "{}" {
			told := agui.StateSnapshot{Base: agui.Base{Timestamp: r.Event.Common().Timestamp}, Snapshot: state}
			want = append(want, Event{0, Decode(told.AppendJSON(nil, v.Projection))})
		}
	}
	slices.SortStableFunc(want, func(a, b Event) int { return cmp.Compare(a.ID, b.ID) })
	return want
}

// Decode is the JSON of an event in the form of Event.Body, or the error for invalid JSON.
func Decode(body []byte) any {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err.Error()
	}
	return v
}

func compare(t *testing.T, want, got []Event) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("the log and what was shown (-log +shown):\n%s", diff)
	}
}

// log reads the thread's log from the runtime.
func (s *Scene) log() []*runtime.Record {
	s.t.Helper()
	ctx := context.Background()
	th, err := s.Runtime.Threads.Get(ctx, s.Caller, s.Thread)
	if err != nil {
		s.t.Fatal(err)
	}
	cur, err := s.Runtime.Logs.Read(ctx, th, 0, false)
	if err != nil {
		s.t.Fatal(err)
	}
	defer cur.Close()
	var all []*runtime.Record
	for {
		recs, err := cur.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, recs...)
	}
}
