package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"testing"
	"weak"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A stuck reader keeps the last page of Next, so pages are limited by size too, not only by number of events.
func TestPageOfLargeEventsIsShort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ events, size int }{"tiny": {2000, 1}, "small": {600, 2000}, "large": {12, 100_000}, "huge": {2, 1 << 20}} {
		t.Run(name, func(t *testing.T) {
			b := open(t, runtime.Config{}, agent{"writer", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				text := run.Text()
				for range c.events {
					if _, err := io.WriteString(text, strings.Repeat("x", c.size)); err != nil {
						return agui.WorkerOutput{}, err
					}
				}
				return agui.WorkerOutput{}, text.Close()
			}})
			b.wait(b.start("main", "writer", "x").RunID, runtime.Completed)
			th := b.found("main")
			cur, err := b.Logs.Read(context.Background(), th, 0, false)
			must(t, err)
			defer cur.Close()
			id, deltas, longest := int64(0), 0, 0
			for {
				recs, err := cur.Next(context.Background())
				if errors.Is(err, io.EOF) {
					break
				}
				must(t, err)
				size := 0
				for _, rec := range recs {
					if id++; rec.ID != id {
						t.Fatalf("id %d, want %d", rec.ID, id)
					}
					if e, ok := rec.Event.(agui.TextMessageContent); ok {
						deltas++
						size += len(e.Delta)
					}
				}
				longest = max(longest, len(recs))
				if size > 256<<10+c.size {
					t.Errorf("%d bytes in %d events at once", size, len(recs))
				}
			}
			if deltas != c.events {
				t.Errorf("got %d of %d deltas", deltas, c.events)
			}
			if longest > 500 || c.size == 1 && longest < 500 {
				t.Errorf("the longest page has %d events", longest)
			}
		})
	}
}

// A page of a run's events fits into one answer.
func TestRunEventsFitIntoAnAnswer(t *testing.T) {
	t.Parallel()
	const n, size = 12, 1 << 20
	b := open(t, runtime.Config{}, agent{"writer", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range n {
			if err := run.Emit(agui.Custom{Name: "large", Value: fmt.Appendf(nil, "%q", strings.Repeat("x", size))}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}})
	run := b.wait(b.start("main", "writer", "x").RunID, runtime.Completed)
	b.log("main")
	custom := func(r *runtime.Record) bool { return r.Event.Type() == agui.TypeCustom }
	for _, back := range []bool{false, true} {
		got := 0
		for q := (runtime.EventQuery{Limit: 500, Admit: custom, Back: back}); ; {
			recs, next, err := b.Logs.RunEvents(t.Context(), &run, q)
			if err != nil || len(recs) == 0 {
				t.Fatalf("%d events, %v", len(recs), err)
			}
			if len(recs)*size > 9<<20 {
				t.Errorf("%d MiB at once", len(recs))
			}
			got += len(recs)
			if q.After = next; back {
				q.After, q.Before = 0, next
			}
			if next == 0 {
				break
			}
		}
		if got != n {
			t.Errorf("got %d events, want %d", got, n)
		}
	}
}

// A reader that only asks whether Next would wait holds no records, because another goroutine may wait for it.
func TestIdleReaderHoldsNoRecords(t *testing.T) {
	b := open(t, runtime.Config{RingEvents: 16}, tokens)
	b.wait(b.start("main", "tokens", "x").RunID, runtime.Completed)
	b.log("main")
	th := b.found("main")
	cur, err := b.Logs.Read(t.Context(), th, 0, true)
	must(t, err)
	defer cur.Close()
	var last weak.Pointer[runtime.Record]
	for !cur.Waits() {
		recs, err := cur.Next(t.Context())
		must(t, err)
		last = weak.Make(recs[0]) // too old for the ring
	}
	for range 10 {
		goruntime.GC()
	}
	if last.Value() != nil {
		t.Error("the reader holds the last page it has returned")
	}
}
