package storagetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func testThreads(t *testing.T, f *fixture) {
	var threads []*data.Thread
	for i := range 5 {
		th := f.newThread(t, "ann", fmt.Sprint("thread", i))
		th.Title, th.Metadata, th.State = fmt.Sprint("title ", i), object("meta"), object("state")
		th.Archived = i == 1
		th.UpdatedAt = at(i / 2) // some are equally old
		f.put(t, &th.ThreadHead, &data.ThreadState{Key: th.Key, State: th.State},
			&data.ThreadPatch{Key: th.Key, Title: &th.Title, Metadata: th.Metadata, Archived: &th.Archived})
		threads = append(threads, th)
	}
	f.newThread(t, "bob", "bobs")
	long := f.runOf(t, threads[0], "first", data.Running)
	long.InputQuery = strings.Repeat("ä", 300)
	f.put(t, long, named(long))
	f.newRun(t, threads[0], "second", data.Queued)
	f.newRun(t, threads[1], "third", data.Completed)
	fourth := f.runOf(t, threads[1], "fourth", data.Failed)
	fourth.InputQuery = strings.Repeat("ä", 40_000) // a list does not read more
	f.put(t, fourth, named(fourth))
	listed := func(th *data.Thread, run string, status data.Status) data.ListedThread {
		l := data.ListedThread{Thread: *th, RunID: run, Status: status}
		l.State = nil
		if run != "" {
			l.Agent = "echo"
		}
		if run == "first" {
			l.Asked = strings.Repeat("ä", 200)
		}
		return l
	}
	want := []data.ListedThread{
		listed(threads[4], "", ""), listed(threads[3], "", ""), listed(threads[2], "", ""),
		listed(threads[1], "fourth", data.Failed), listed(threads[0], "first", data.Running),
	}
	for limit := 1; limit <= 6; limit++ {
		filter := data.ThreadFilter{Project: "project", User: "ann", Limit: limit, Count: true}
		var all []data.ListedThread
		for {
			page, total, err := Parts(f.ByProject().Threads(t.Context(), filter))
			if equal(t, "total", total, err, 5); err != nil {
				return
			}
			all = append(all, page...)
			if len(page) < limit {
				break
			}
			filter.BeforeTime, filter.BeforeKey = page[limit-1].UpdatedAt, page[limit-1].Key
		}
		equal(t, fmt.Sprintf("Threads by %d", limit), all, nil, want)
	}
	for _, test := range []struct {
		filter data.ThreadFilter
		want   []data.ListedThread
	}{
		{data.ThreadFilter{Archived: new(true)}, want[3:4]},
		{data.ThreadFilter{Archived: new(false), Text: "THREAD"}, slices.Concat(want[:3], want[4:])},
		{data.ThreadFilter{Text: "Title 3"}, want[1:2]},
		{data.ThreadFilter{Text: "nothing"}, nil},
	} {
		test.filter.Project, test.filter.User, test.filter.Count = "project", "ann", true
		got, total, err := Parts(f.ByProject().Threads(t.Context(), test.filter))
		equal(t, fmt.Sprintf("Threads %+v", test.filter), got, err, test.want)
		equal(t, "their number", total, err, len(test.want))
		test.filter.Limit = 1
		p, err := f.ByProject().Threads(t.Context(), test.filter)
		equal(t, "a page of one goes on", p.More, err, len(test.want) > 1)
	}
	forged := data.ThreadFilter{Project: "project", User: "ann", BeforeTime: time.UnixMilli(math.MaxInt64), BeforeKey: 1}
	all, _, err := Parts(f.ByProject().Threads(t.Context(), forged))
	equal(t, "Threads before the end of time", all, err, want)
	one, err := f.ByProject().ListedThread(t.Context(), threads[0].Project, threads[0].Key)
	equal(t, "ListedThread", one, err, want[4])
}

func testHistory(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run := f.newRun(t, thread, "run", data.Completed)
	day := func(n int) time.Time { return time.Date(2026, 2, n, 0, 0, 0, 0, time.UTC) }
	seq := int64(0)
	put := func(id string, state data.MessageState, role agui.Role, day time.Time) {
		seq++
		m := message(run, id, seq, state)
		m.Role, m.Day = role, day
		if role == agui.RoleActivity {
			m.Content, m.Parts, m.ActivityType = "", json.RawMessage(`{}`), "plan"
		}
		f.put(t, m)
	}
	put("last of the first", data.MessageConsumed, agui.RoleUser, day(1))
	put("thought alone", data.MessageConsumed, agui.RoleReasoning, time.Time{})
	put("activity alone", data.MessageConsumed, agui.RoleActivity, time.Time{})
	put("first of the third", data.MessageConsumed, agui.RoleUser, day(3))
	put("thought", data.MessageConsumed, agui.RoleReasoning, time.Time{})
	put("answer", data.MessageConsumed, agui.RoleAssistant, day(3))
	put("appended", data.MessageConsumed, agui.RoleUser, day(3))
	put("hidden", data.MessageHidden, agui.RoleUser, day(4))
	put("queued", data.MessageQueued, agui.RoleUser, day(5))
	elsewhere := message(f.newRun(t, f.newThread(t, "ann", "other"), "elsewhere", data.Running), "a", 9, data.MessageConsumed)
	elsewhere.Day = day(3)
	f.put(t, elsewhere)

	ctx := t.Context()
	for _, test := range []struct{ before, want time.Time }{
		{day(30), day(3)},
		{day(4).Add(time.Hour), day(3)},
		{day(4), day(3)},
		{day(3).Add(24*time.Hour - 1), day(1)},
		{day(3), day(1)},
		{day(2), day(1)},
		{time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), day(3)},
		{time.Date(2026, 2, 4, 1, 0, 0, 0, time.FixedZone("", 2*3600)), day(1)},
	} {
		got, err := f.ByProject().HistoryDay(ctx, thread.Project, thread.Key, test.before)
		equal(t, "HistoryDay before "+test.before.String(), got, err, test.want)
	}
	for _, before := range []time.Time{day(1), time.Unix(0, 0), {}} {
		if got, err := f.ByProject().HistoryDay(ctx, thread.Project, thread.Key, before); !errors.Is(err, data.ErrNotFound) {
			t.Errorf("HistoryDay before %v: %v, %v, want ErrNotFound", before, got, err)
		}
	}
	third := []string{"first of the third", "answer", "appended"}
	got, err := rowsOf(f.ByProject().History(ctx, thread.Project, thread.Key, day(3), 0, 10))
	equal(t, "History", ids(got), err, third)
	var paged []data.Message
	for after := int64(0); ; {
		page, err := rowsOf(f.ByProject().History(ctx, thread.Project, thread.Key, day(3).Add(time.Hour), after, 1))
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		paged = append(paged, page...)
		after = page[0].Seq
	}
	equal(t, "History one by one", ids(paged), nil, third)
	none, err := rowsOf(f.ByProject().History(ctx, thread.Project, thread.Key, day(2), 0, 10))
	equal(t, "History of thoughts", ids(none), err, []string{})

	again := got[1]
	again.Content = "another answer"
	f.put(t, &again)
	got, err = rowsOf(f.ByProject().History(ctx, thread.Project, thread.Key, day(3), 0, 10))
	equal(t, "History after another Put", ids(got), err, third)
}

func testDeleteThread(t *testing.T, f *fixture) {
	ctx := t.Context()
	const n = 40
	fill := func(user string) (*data.Thread, []*data.Run) {
		thread := f.newThread(t, user, "main")
		var runs []*data.Run
		for i := range n {
			run := f.newRun(t, thread, fmt.Sprint("run", i), data.Completed)
			first := int64(1 + i*10)
			f.commit(t, events(run, first, first+9),
				&data.RunName{RunKey: run.Key, Project: "project", User: user, Name: fmt.Sprint("name", i)},
				&data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: first, Last: first + 9},
				&data.Step{RunKey: run.Key, Number: 1, StartedAt: at(0)}, &data.Node{RunKey: run.Key, NodeID: "n"},
				&data.Memo{RunKey: run.Key, Generation: 1, Place: "m#1"},
				&data.Memo{RunKey: run.Key, Generation: 1, Place: "m#2"},
				&data.Signal{RunKey: run.Key, N: 1, Name: "e", Payload: object("p"), CreatedAt: at(0)},
				&data.Interrupt{RunKey: run.Key, ID: "i", CreatedAt: at(0)},
				&data.IdempotencyKey{Scope: fmt.Sprint(user, i), RunKey: run.Key, CreatedAt: at(0)},
				message(run, fmt.Sprint("m", i), int64(i+1), data.MessageConsumed))
			runs = append(runs, run)
		}
		return thread, runs
	}
	gone, goneRuns := fill("ann")
	kept, keptRuns := fill("bob")
	f.put(t, message(goneRuns[0], "queued", 0, data.MessageQueued))

	calls := 0
	for done := false; !done; calls++ {
		if calls > 0 { // the rest is a thread that continues its ids
			last, err := f.LastEventID(ctx, gone.Key)
			equal(t, "LastEventID meanwhile", last, err, 10*n)
		}
		f.put(t, &data.Delete{ThreadKey: gone.Key, Limit: 30})
		_, err := f.Thread(ctx, gone.Key)
		done = errors.Is(err, data.ErrNotFound)
		if calls > 100 {
			t.Fatal("there is no end to it")
		}
	}
	if calls < 5 {
		t.Errorf("all was gone after %d calls of 30 rows", calls)
	}
	counts := func(user string, thread *data.Thread, run *data.Run, i int) map[string]int {
		t.Helper()
		counts := make(map[string]int)
		count := func(what string, n int, err error) {
			t.Helper()
			if counts[what] = n; err != nil && !errors.Is(err, data.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		events, err := f.Events(ctx, thread.Key, 0, 10*n+1)
		count("events", len(events), err)
		msgs, err := f.Messages(ctx, thread.Key, 0, n+1)
		count("messages", len(msgs), err)
		queued, err := f.Queued(ctx, run.Key)
		count("queued", len(queued), err)
		_, total, err := Parts(f.ByProject().Runs(ctx, data.RunFilter{Project: "project", User: user, Count: true}))
		count("runs", total, err)
		for _, name := range []string{run.ID, fmt.Sprint("name", i)} {
			named, err := f.ByProject().RunsByName(ctx, "project", user, name)
			count(name, len(named), err)
		}
		spans, err := f.Spans(ctx, run.Key)
		count("spans", len(spans), err)
		steps, _, err := Parts(f.ByProject().Steps(ctx, run.Project, run.Key, "", 0, 10))
		count("steps", len(steps), err)
		nodes, err := f.Nodes(ctx, run.Key)
		count("nodes", len(nodes), err)
		memos, err := f.Memos(ctx, run.Key, 1)
		count("memos", len(memos), err)
		signal, err := f.Queue().Signal(ctx, run.Key, "e", 0)
		count("signals", int(signal.N), err)
		interrupts, err := f.Interrupts(ctx, run.Key)
		count("interrupts", len(interrupts), err)
		count("key", len(f.views(t, data.Ask{Scope: fmt.Sprint(user, i)})[0].Remembered), nil)
		return counts
	}
	for _, i := range []int{0, n / 2, n - 1} {
		for what, n := range counts("ann", gone, goneRuns[i], i) {
			if n != 0 {
				t.Errorf("%s of run %d: %d are left", what, i, n)
			}
		}
		for what, n := range counts("bob", kept, keptRuns[i], i) {
			if n == 0 && what != "queued" {
				t.Errorf("%s of the other thread's run %d are gone", what, i)
			}
		}
	}
	again := f.newThread(t, "ann", "main")
	if again.Key == gone.Key {
		t.Error("the key is used again")
	}
	last, err := f.LastEventID(ctx, again.Key)
	equal(t, "LastEventID of a thread of the same name", last, err, 0)
	f.put(t, &data.Delete{ThreadKey: gone.Key, Limit: 30}) // it is gone already
	if _, err := f.Thread(ctx, again.Key); err != nil {
		t.Errorf("the thread of that name: %v", err)
	}
}

// Deletions in one batch remove what each of them would alone, at the latest when those with parts left are repeated.
func testDeleteTogether(t *testing.T, f *fixture) {
	ctx := t.Context()
	shared := f.newThread(t, "ann", "shared")
	fill := func(thread *data.Thread, name string, first, last int64) *data.Run {
		run := f.newRun(t, thread, name, data.Completed)
		thread.LastEventID = last
		f.commit(t, events(run, first, last), &thread.ThreadHead,
			&data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: first, Last: last},
			&data.Step{RunKey: run.Key, Number: 1, StartedAt: at(0)}, &data.Node{RunKey: run.Key, NodeID: "n"},
			&data.Memo{RunKey: run.Key, Generation: 1, Place: "m#1"}, &data.Interrupt{RunKey: run.Key, ID: "i", CreatedAt: at(0)},
			message(run, "m"+name, first, data.MessageConsumed))
		return run
	}
	var runs []*data.Run
	for i := range 10 {
		runs = append(runs, fill(f.newThread(t, "bob", fmt.Sprint("thread", i)), fmt.Sprint("run", i), 1, 3))
	}
	runs = append(runs, fill(shared, "first", 1, 5))
	kept := fill(shared, "kept", 6, 10)
	stripped := fill(shared, "stripped", 11, 15)
	runs = append(runs, fill(shared, "large", 16, 140), fill(shared, "last", 141, 145))

	var left []*data.Delete
	for _, run := range runs {
		left = append(left, &data.Delete{ThreadKey: run.ThreadKey, RunKey: run.Key, Limit: 40})
	}
	left = append(left, &data.Delete{ThreadKey: shared.Key, RunKey: stripped.Key, Events: true, Limit: 40},
		&data.Delete{ThreadKey: 1 << 40, RunKey: 1 << 40, Limit: 40}) // which is not there
	for batches := 0; len(left) > 0; batches++ {
		if batches > 100 {
			t.Fatal("there is no end to it")
		}
		var rows []data.Row
		for _, d := range left {
			rows = append(rows, d)
		}
		f.put(t, rows...)
		left = slices.DeleteFunc(left, func(d *data.Delete) bool { return !d.Left })
	}
	for _, run := range runs {
		_, err := f.Run(ctx, run.Key)
		memos, memosErr := f.Memos(ctx, run.Key, 1)
		steps, stepsErr := rowsOf(f.ByProject().Steps(ctx, "project", run.Key, "", 0, 10))
		named, namesErr := f.ByProject().RunsByName(ctx, "project", run.User, run.ID)
		if !errors.Is(err, data.ErrNotFound) || len(memos)+len(steps)+len(named) > 0 || errors.Join(memosErr, stepsErr, namesErr) != nil {
			t.Errorf("run %s: %v, %d memos, %d steps, %d runs of its name", run.ID, err, len(memos), len(steps), len(named))
		}
		if last, err := f.LastEventID(ctx, run.ThreadKey); err != nil || last != 3 && run.ThreadKey != shared.Key || last != 145 && run.ThreadKey == shared.Key {
			t.Errorf("the log of %s ends at %d, %v", run.ID, last, err)
		}
	}
	log, err := f.Events(ctx, shared.Key, 0, 200)
	if err != nil || len(log) != 5 || log[0].ID != 6 || log[0].RunKey != kept.Key {
		t.Errorf("of the shared log %d events are left, %v", len(log), err)
	}
	for _, run := range []*data.Run{kept, stripped} {
		msgs, err := rowsOf(f.ByProject().RunMessages(ctx, "project", run.Key, 0, 10))
		equal(t, "messages of "+run.ID, len(msgs), err, 1)
	}
	deletions, err := f.Queue().Deletions(ctx, 0, 0, 10)
	equal(t, "deletions of which parts are left", len(deletions), err, 0)
}
