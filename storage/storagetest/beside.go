package storagetest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/batonrun/baton/runtime/data"
)

// Reads of instances beside each other.

func testCancelAsks(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, queued := f.runOf(t, thread, "run", data.Running), f.runOf(t, thread, "queued", data.Queued)
	run.Owner = "other"
	f.put(t, run, named(run), queued, named(queued))
	by := &data.Audit{Actor: "ann", Action: "cancel", Address: "::1"}
	want := func(owner string, asks ...data.CancelAsk) {
		t.Helper()
		got, err := f.CancelAsks(t.Context(), owner)
		equal(t, "CancelAsks of "+owner, got, err, asks)
	}
	want("other")
	f.put(t, &data.CancelAsk{RunKey: run.Key, By: by}, &data.CancelAsk{RunKey: queued.Key})
	f.put(t, &data.CancelAsk{RunKey: run.Key}) // the first request stays
	want("other", data.CancelAsk{RunKey: run.Key, By: by})
	run.Owner = "next" // takes it over
	f.put(t, &run.RunHead)
	want("other")
	want("next", data.CancelAsk{RunKey: run.Key, By: by})
	run.Status = data.Waiting
	f.put(t, &data.CancelAsk{RunKey: run.Key}, &run.RunHead)
	want("next")
	run.Status = data.Running
	f.put(t, &run.RunHead)
	f.put(t, &data.CancelAsk{RunKey: run.Key})
	want("next", data.CancelAsk{RunKey: run.Key})
	run.Status, run.Owner = data.Completed, "next"
	f.put(t, &run.RunHead)
	want("next")

	heads, err := f.Heads(t.Context(), []int64{run.Key, 1 << 40})
	equal(t, "Heads", heads, err, []data.RunHead{run.RunHead})
}

func testAppended(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, other := f.newRun(t, thread, "run", data.Running), f.newRun(t, thread, "other", data.Completed)
	f.put(t, message(run, "a", 0, data.MessageQueued), message(run, "b", 0, data.MessageQueued), message(other, "c", 1, data.MessageConsumed))
	counts, err := f.Queue().Appended(t.Context(), []int64{run.Key, other.Key})
	equal(t, "Appended", counts, err, map[int64]int{run.Key: 2})
}

func testLogHeads(t *testing.T, f *fixture) {
	idle, thread := f.newThread(t, "ann", "idle"), f.newThread(t, "ann", "main")
	want := func(head data.LogHead) {
		t.Helper()
		got, err := f.LogHeads(t.Context(), []data.LogPlace{{Thread: thread.Key, After: -1}, {Thread: 1 << 40}})
		head.Thread = thread.Key
		equal(t, "LogHeads", got, err, []data.LogHead{head})
	}
	want(data.LogHead{})
	run := f.runOf(t, thread, "run", data.Queued)
	f.put(t, run, named(run))
	want(data.LogHead{Busy: true})
	run.Status, run.Owner = data.Running, "x"
	f.put(t, &run.RunHead)
	want(data.LogHead{Busy: true})
	f.commit(t, events(run, 1, 3), &data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: 1})
	want(data.LogHead{Last: 3, Busy: true})
	if f.Shared() {
		got, err := f.LogHeads(t.Context(), []data.LogPlace{{Thread: thread.Key, After: 1}, {Thread: idle.Key}})
		page, _ := f.Events(t.Context(), thread.Key, 1, 10)
		slices.SortFunc(got, func(a, b data.LogHead) int { return cmp.Compare(a.Thread, b.Thread) })
		equal(t, "LogHeads with events", got, err, []data.LogHead{{Thread: idle.Key}, {Thread: thread.Key, Last: 3, Busy: true, Latest: page}})
	}
	run.Status, run.Owner = data.Waiting, data.ReleasedBy("x", 1, 0)
	run.Waits = &data.Waits{Since: at(1), Due: at(2), All: []data.Wait{{Kind: data.WaitTime, Until: at(2)}}}
	f.put(t, &run.RunHead)
	want(data.LogHead{Last: 3, Busy: true}) // it is parked
	heads, err := f.Heads(t.Context(), []int64{run.Key})
	equal(t, "Heads", heads, err, []data.RunHead{run.RunHead})
	run.Owner, run.Waits = "", nil
	thread.LastEventID = 3
	f.put(t, &run.RunHead, &thread.ThreadHead, &data.SpanEnd{RunKey: run.Key, N: 1, Last: 3})
	want(data.LogHead{Last: 3})
	run.Status = data.Completed
	f.put(t, &run.RunHead)
	f.put(t, &data.Delete{ThreadKey: thread.Key, RunKey: run.Key, Limit: 100})
	want(data.LogHead{Last: 3, Removals: 1})
	all, err := f.LogHeads(t.Context(), []data.LogPlace{{Thread: idle.Key}, {Thread: thread.Key}})
	equal(t, "LogHeads", len(all), err, 2)
}
