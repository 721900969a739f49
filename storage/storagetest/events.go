package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// readAll reads a thread's log in pages.
func readAll(t *testing.T, store data.Reader, thread int64, limit int) []data.StoredEvent {
	t.Helper()
	var all []data.StoredEvent
	for after := int64(0); ; {
		page, err := store.Events(t.Context(), thread, after, limit)
		if err != nil {
			t.Fatalf("Events after %d: %v", after, err)
		}
		if len(page) > limit {
			t.Fatalf("Events after %d: %d of at most %d", after, len(page), limit)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].ID
	}
}

func testEventsPage(t *testing.T, f *fixture) {
	a := f.newRun(t, f.newThread(t, "ann", "a"), "a", data.Running)
	b := f.newRun(t, f.newThread(t, "ann", "b"), "b", data.Running)
	// Batches of growing size, of two threads in turn, every second one with events of a decision.
	last := int64(0)
	for n := int64(1); n <= 20; n++ {
		var batch []data.StoredEvent
		for id := last + 1; id <= last+n; id++ {
			batch = append(append(batch, events(a, id, id)...), events(b, id, id)...)
		}
		last += n
		if n%2 == 0 {
			f.commit(t, batch)
			continue
		}
		half := len(batch) / 2
		err := f.try(t.Context(), &data.Batch{
			Events: batch[:half], Asks: []data.Ask{{Thread: a.ThreadKey}},
			Decide: func(int, *data.View) data.Changes { return data.Changes{Events: batch[half:]} },
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []*data.Run{a, b} {
		want := events(run, 1, last)
		for _, limit := range []int{1, 7, 64, 100, 500, 1000} {
			if diff := cmp.Diff(want, readAll(t, f, run.ThreadKey, limit)); diff != "" {
				t.Fatalf("pages of %d (-want +got):\n%s", limit, diff)
			}
		}
	}
	got, err := f.Events(t.Context(), a.ThreadKey, last, 10)
	equal(t, "after the last", len(got), err, 0)
	got, err = f.Events(t.Context(), a.ThreadKey, last+100, 10)
	equal(t, "far after the last", len(got), err, 0)
	id, err := f.LastEventID(t.Context(), a.ThreadKey)
	equal(t, "LastEventID", id, err, last)
}

func testEventsRunID(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	first, second := f.newRun(t, thread, "first", data.Completed), f.newRun(t, thread, "second", data.Running)
	span := func(run *data.Run, n int, id string, from, to int64) *data.Span {
		return &data.Span{RunKey: run.Key, N: n, ThreadKey: thread.Key, RunID: id, First: from, Last: to}
	}
	batch := append(append(events(first, 1, 3), events(second, 4, 6)...), append(events(first, 7, 9), events(second, 10, 12)...)...)
	f.commit(t, batch, span(first, 1, "first", 1, 3), span(second, 1, "second", 4, 6),
		span(first, 2, "first again", 7, 9), span(second, 2, "second again", 10, 0))
	names := func(after int64, limit int) string {
		t.Helper()
		page, err := f.Events(t.Context(), thread.Key, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, ev := range page {
			list = append(list, fmt.Sprint(ev.ID, " ", ev.RunID))
		}
		return strings.Join(list, ", ")
	}
	for _, test := range []struct {
		after int64
		limit int
		want  string
	}{
		{0, 4, "1 first, 2 first, 3 first, 4 second"},
		{1, 1, "2 first"},
		{4, 3, "5 second, 6 second, 7 first again"},
		{8, 100, "9 first again, 10 second again, 11 second again, 12 second again"},
		{11, 100, "12 second again"},
	} {
		if got := names(test.after, test.limit); got != test.want {
			t.Errorf("after %d: got %q, want %q", test.after, got, test.want)
		}
	}
}

// While a span is open, no other span writes to the log, not even one that is over at once.
func testOneOpenSpan(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	first, second := f.newRun(t, thread, "first", data.Running), f.newRun(t, thread, "second", data.Queued)
	elsewhere := f.newRun(t, other, "elsewhere", data.Running)
	span := func(run *data.Run, n int, from, to int64) *data.Span {
		return &data.Span{RunKey: run.Key, N: n, ThreadKey: run.ThreadKey, RunID: run.ID, First: from, Last: to}
	}
	f.put(t, span(first, 1, 1, 0), span(elsewhere, 1, 1, 0))
	f.refuse(t, span(second, 1, 5, 0))
	f.refuse(t, span(second, 1, 5, 6))
	f.put(t, &data.SpanEnd{RunKey: first.Key, N: 1, Last: 4}, span(second, 1, 5, 6), span(first, 2, 7, 8), span(second, 2, 9, 0))
	f.refuse(t, span(first, 3, 12, 0), span(first, 4, 20, 21))
	spans, err := f.Spans(t.Context(), second.Key)
	equal(t, "Spans", spans, err, []data.Span{*span(second, 1, 5, 6), *span(second, 2, 9, 0)})
}

func testEventsGaps(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	var want []data.StoredEvent
	var gone []int64
	last := int64(0)
	for i := range 6 {
		run := f.newRun(t, thread, fmt.Sprint("run", i), data.Completed)
		first, end := last+1, last+200
		last = end
		f.commit(t, events(run, first, end),
			&data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: first, Last: end})
		if i == 0 || i == 2 || i == 3 {
			gone = append(gone, run.Key)
			continue
		}
		kept := events(run, first, end)
		for i := range kept {
			kept[i].RunID = run.ID
		}
		want = append(want, kept...)
	}
	for _, key := range gone {
		f.put(t, &data.Delete{ThreadKey: thread.Key, RunKey: key, Limit: 1000})
	}
	for _, limit := range []int{1, 10, 150, 500, 5000} {
		if diff := cmp.Diff(want, readAll(t, f, thread.Key, limit)); diff != "" {
			t.Fatalf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
}

func testEventSizes(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	var batch []data.StoredEvent
	for i, text := range []string{
		"", "x", strings.Repeat("y", 5000), strings.Repeat("z", 9000), "ünï \U0001f600 \u2028", `\u0000 \n \"`,
		strings.Repeat("8", 8<<20), "after",
	} {
		batch = append(batch, data.StoredEvent{
			ThreadKey: run.ThreadKey, ID: int64(i + 1), RunKey: run.Key, Kind: "CUSTOM",
			Payload: []byte(`{"type":"CUSTOM","value":"` + text + `"}`),
		})
	}
	for i, payload := range []string{"", "{}", " ", "CUSTOM {}", `{"type":"OTHER"}`, `{"type": "CUSTOM"}`, "[1]"} {
		batch = append(batch, data.StoredEvent{
			ThreadKey: run.ThreadKey, ID: int64(100 + i), RunKey: run.Key, Kind: agui.Type([]string{"CUSTOM", ""}[i%2]),
			Payload: []byte(payload),
		})
	}
	f.commit(t, batch[:4])
	f.commit(t, batch[4:], &data.RunCrashes{Key: run.Key})
	got := readAll(t, f, run.ThreadKey, 100)
	if len(got) != len(batch) {
		t.Fatalf("Events: %d of %d", len(got), len(batch))
	}
	for i := range got {
		if got[i].ID != batch[i].ID || got[i].Kind != batch[i].Kind || !bytes.Equal(got[i].Payload, batch[i].Payload) {
			t.Errorf("event %d came back different: kind %q, %d bytes", batch[i].ID, got[i].Kind, len(got[i].Payload))
		}
	}
	// A payload may be appended to without harm to its neighbour.
	_ = append(got[0].Payload, "overwritten"...)
	if !bytes.Equal(got[1].Payload, batch[1].Payload) {
		t.Error("appending to a payload changed the next")
	}
}

// A reader never gets more events than it can hold, however many it asks for.
func testLargeEvents(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	const n, size = 12, 400_000
	batch := events(run, 1, n)
	for i := range batch {
		batch[i].Payload = fmt.Appendf(nil, `{"type":"CUSTOM","value":%q}`, strings.Repeat("x", size))
		batch[i].Kind = "CUSTOM"
	}
	f.commit(t, batch)
	for after := int64(0); after < n; {
		page, err := f.Events(t.Context(), run.ThreadKey, after, 500)
		if err != nil || len(page) == 0 {
			t.Fatalf("Events after %d: %d, %v", after, len(page), err)
		}
		if held := len(page) * size; held > 2<<20 {
			t.Errorf("Events after %d: %d bytes at once", after, held)
		}
		for _, ev := range page {
			if after++; ev.ID != after {
				t.Fatalf("event %d is at place %d", ev.ID, after)
			}
		}
	}
}

func testBadEvents(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	for what, change := range map[string]func(*data.StoredEvent){
		"NUL":           func(ev *data.StoredEvent) { ev.Payload = []byte("{\"a\":\"\x00\"}") },
		"two lines":     func(ev *data.StoredEvent) { ev.Payload = []byte("{\n}") },
		"not UTF-8":     func(ev *data.StoredEvent) { ev.Payload = []byte("\xff") },
		"a wrong kind":  func(ev *data.StoredEvent) { ev.Kind = "A B" },
		"kind of a NUL": func(ev *data.StoredEvent) { ev.Kind = "A\x00" },
		"no id":         func(ev *data.StoredEvent) { ev.ID = 0 },
		"no thread":     func(ev *data.StoredEvent) { ev.ThreadKey = 0 },
	} {
		batch := events(run, 1, 3)
		change(&batch[1])
		for _, rows := range [][]data.Row{nil, {&data.RunCrashes{Key: run.Key}}} {
			t.Run(what, func(t *testing.T) {
				wantDataError(t, f.try(t.Context(), &data.Batch{Events: batch, Rows: rows}))
			})
		}
	}
	f.commit(t, events(run, 1, 3))
	got, err := f.Events(t.Context(), run.ThreadKey, 0, 10)
	equal(t, "Events", got, err, events(run, 1, 3))
}

func testLastEventID(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Completed)
	check := func(want int64) {
		t.Helper()
		got, err := f.LastEventID(t.Context(), thread.Key)
		equal(t, "LastEventID", got, err, want)
	}
	check(0)
	f.commit(t, events(run, 1, 5), &data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: "run", First: 1})
	check(5)
	f.put(t, &data.Delete{ThreadKey: thread.Key, RunKey: run.Key, Limit: 1000})
	check(5)
	got, err := f.Events(t.Context(), thread.Key, 0, 10)
	equal(t, "events", len(got), err, 0)
	thread.LastEventID = 9
	f.put(t, &thread.ThreadHead)
	check(9)
}

// testConcurrentReaders reads logs while they grow: a reader that continues from its last event sees all events, in order,
// once.
func testConcurrentReaders(t *testing.T, f *fixture) {
	const threads, batches, per = 4, 60, 5
	runs := make([]*data.Run, threads)
	for i := range runs {
		runs[i] = f.newRun(t, f.newThread(t, "ann", fmt.Sprint(i)), fmt.Sprint("run", i), data.Running)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for _, run := range runs {
		wg.Go(func() { // ends at the last event
			for after := int64(0); after < batches*per; {
				page, err := f.Events(ctx, run.ThreadKey, after, 7)
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("Events: %v", err)
					}
					return
				}
				for _, ev := range page {
					if ev.ID != after+1 {
						t.Errorf("thread %d: event %d follows %d", run.ThreadKey, ev.ID, after)
						return
					}
					after = ev.ID
				}
			}
		})
	}
	for n := range int64(batches) {
		var batch []data.StoredEvent
		for _, run := range runs {
			batch = append(batch, events(run, n*per+1, (n+1)*per)...)
		}
		var rows []data.Row
		if n%3 == 0 {
			rows = []data.Row{&data.RunCrashes{Key: runs[0].Key}}
		}
		if err := f.try(ctx, &data.Batch{Events: batch, Rows: rows}); err != nil {
			stop()
			t.Errorf("commit: %v", err)
			break
		}
	}
	wg.Wait()
}
