package storagetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func testOneActiveRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	first := f.newRun(t, thread, "first", runtime.Running)
	second := f.newRun(t, thread, "second", runtime.Queued)
	f.refuse(t, runOf(thread, "third", runtime.Waiting))
	second.Status = runtime.Running
	f.refuse(t, second)
	first.Status = runtime.Waiting
	f.put(t, first)
	f.refuse(t, second)
	f.newRun(t, f.newThread(t, "ann", "other"), "elsewhere", runtime.Running)

	// In one transaction one ends and the next begins, whatever else was put before.
	first.Status, second.Status = runtime.Waiting, runtime.Queued
	f.commit(t, nil, func(tx runtime.Tx) error {
		if err := tx.Put(second, first); err != nil {
			return err
		}
		first.Status, second.Status = runtime.Completed, runtime.Running
		return tx.Put(first, second)
	})
	got, err := f.Run(t.Context(), second.Key)
	equal(t, "second", got.Status, err, runtime.Running)
}

func testNames(t *testing.T, f *fixture) {
	main := f.newThread(t, "ann", "main")
	run := f.newRun(t, main, "run", runtime.Completed)
	f.put(t, &runtime.RunName{RunKey: run.Key, Name: "later"}, &runtime.RunName{RunKey: run.Key, Name: "last"})
	f.put(t, &runtime.RunName{RunKey: run.Key, Name: "later"})
	other := f.newRun(t, f.newThread(t, "ann", "other"), "other", runtime.Completed)
	f.refuse(t, runOf(main, "run", runtime.Queued))
	f.refuse(t, runOf(main, "later", runtime.Queued))
	f.refuse(t, &runtime.RunName{RunKey: other.Key, Name: "later"})
	f.refuse(t, &runtime.RunName{RunKey: other.Key, Name: "run"})
	f.refuse(t, &runtime.RunName{RunKey: other.Key, Name: "new"}, &runtime.RunName{RunKey: run.Key, Name: "new"})
	bobs := f.newRun(t, f.newThread(t, "bob", "main"), "later", runtime.Completed)

	for _, test := range []struct {
		user, name string
		want       []int64
	}{
		{"ann", "run", []int64{run.Key}},
		{"ann", "later", []int64{run.Key}},
		{"bob", "later", []int64{bobs.Key}},
		{"", "later", []int64{run.Key, bobs.Key}},
		{"", "last", []int64{run.Key}},
		{"bob", "run", []int64{}},
		{"ann", "new", []int64{}},
	} {
		got, err := f.RunsByName(t.Context(), "project", test.user, test.name)
		equal(t, "RunsByName "+test.user+" "+test.name, keys(got), err, test.want)
	}
	elsewhere, err := f.RunsByName(t.Context(), "elsewhere", "", "run")
	equal(t, "in another project", len(elsewhere), err, 0)
}

func testThreadNames(t *testing.T, f *fixture) {
	want := f.newThread(t, "ann", "main")
	f.refuse(t, &runtime.Thread{Project: "project", User: "ann", ID: "main", ConversationID: "other"})
	f.newThread(t, "bob", "main")
	got, err := f.ThreadByID(t.Context(), "project", "ann", "main")
	equal(t, "ThreadByID", got, err, *want)
	_, err = f.ThreadByConversation(t.Context(), "other", want.ConversationID)
	if !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a conversation of another project: %v", err)
	}
}

func testLatestThread(t *testing.T, f *fixture) {
	first := f.newThread(t, "ann", "first")
	second := f.newThread(t, "ann", "second")
	f.newThread(t, "bob", "third")
	got, err := f.LatestThread(t.Context(), "project", "ann")
	equal(t, "LatestThread", got, err, *second)
	first.UpdatedAt = at(1)
	f.put(t, first)
	got, err = f.LatestThread(t.Context(), "project", "ann")
	equal(t, "LatestThread", got, err, *first)
}

func testOpenRuns(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	put := func(id string, status runtime.Status, answered bool, queued int) int64 {
		run := runOf(thread, id, status)
		run.Answered, run.QueuedAt = answered, at(queued)
		f.put(t, run)
		return run.Key
	}
	late := put("late", runtime.Queued, false, 9)
	early := put("early", runtime.Queued, false, 1)
	same := put("same", runtime.Queued, false, 1)
	answered := put("answered", runtime.Queued, true, 20)
	put("done", runtime.Completed, false, 0)
	active := put("active", runtime.Waiting, false, 30)
	got, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", keys(got), err, []int64{active, answered, early, same, late})
}

func testRuns(t *testing.T, f *fixture) {
	ann, bob := f.newThread(t, "ann", "main"), f.newThread(t, "bob", "main")
	put := func(thread *runtime.Thread, id string, change func(*runtime.Run)) int64 {
		run := runOf(thread, id, runtime.Completed)
		change(run)
		f.put(t, run)
		return run.Key
	}
	a := put(ann, "a", func(*runtime.Run) {})
	b := put(ann, "b", func(r *runtime.Run) { r.Status = runtime.Failed })
	c := put(bob, "c", func(r *runtime.Run) { r.Agent, r.WorkflowID = "", "flow" })
	d := put(bob, "d", func(r *runtime.Run) { r.CreatedAt = at(1000) })
	put(bob, "e", func(r *runtime.Run) { r.Project = "elsewhere" })
	for _, test := range []struct {
		filter runtime.RunFilter
		want   []int64
		total  int
	}{
		{runtime.RunFilter{}, []int64{d, c, b, a}, 4},
		{runtime.RunFilter{User: "ann"}, []int64{b, a}, 2},
		{runtime.RunFilter{Status: runtime.Failed}, []int64{b}, 1},
		{runtime.RunFilter{Agent: "echo"}, []int64{d, b, a}, 3},
		{runtime.RunFilter{WorkflowID: "flow"}, []int64{c}, 1},
		{runtime.RunFilter{ThreadKey: bob.Key, Agent: "echo"}, []int64{d}, 1},
		{runtime.RunFilter{Since: at(1)}, []int64{d}, 1},
		{runtime.RunFilter{Limit: 2}, []int64{d, c}, 4},
		{runtime.RunFilter{Limit: 2, BeforeKey: c}, []int64{b, a}, 4},
		{runtime.RunFilter{User: "nobody"}, []int64{}, 0},
	} {
		test.filter.Project = "project"
		got, total, err := f.Runs(t.Context(), test.filter)
		equal(t, fmt.Sprintf("Runs %+v", test.filter), keys(got), err, test.want)
		equal(t, fmt.Sprintf("total of %+v", test.filter), total, err, test.total)
	}
	got, total, err := f.Runs(t.Context(), runtime.RunFilter{})
	equal(t, "total without a filter", total, err, 5)
	equal(t, "runs without a filter", len(got), err, 5)
}

func testRunsBounded(t *testing.T, f *fixture) {
	if testing.Short() {
		t.Skip("writes ten thousand runs")
	}
	const n = 10_010
	thread := f.newThread(t, "ann", "main")
	f.commit(t, nil, func(tx runtime.Tx) error {
		for i := range n {
			if err := tx.Put(runOf(thread, fmt.Sprint("run", i), runtime.Completed)); err != nil {
				return err
			}
		}
		return nil
	})
	got, total, err := f.Runs(t.Context(), runtime.RunFilter{Project: "project", Limit: 3})
	equal(t, "total", total, err, 10_000)
	equal(t, "page", len(got), err, 3)
}

func testUnfinished(t *testing.T, f *fixture) {
	var want []int64
	for i := range 7 {
		run := runOf(f.newThread(t, "ann", fmt.Sprint(i)), fmt.Sprint("run", i), runtime.Queued)
		run.QueuedAt = at(i / 3)
		f.put(t, run)
		want = append(want, run.Key)
	}
	running := f.newRun(t, f.newThread(t, "ann", "running"), "running", runtime.Running)
	f.newRun(t, f.newThread(t, "ann", "done"), "done", runtime.Completed)

	got := []int64{}
	var queued time.Time
	for key := int64(0); ; {
		page, err := f.Unfinished(t.Context(), runtime.Queued, queued, key, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, keys(page)...)
		if len(page) < 2 {
			break
		}
		queued, key = page[1].QueuedAt, page[1].Key
	}
	equal(t, "queued", got, nil, want)
	page, err := f.Unfinished(t.Context(), runtime.Running, time.Time{}, 0, 10)
	equal(t, "running", keys(page), err, []int64{running.Key})
	counts, err := f.Counts(t.Context())
	equal(t, "Counts", counts, err, map[runtime.Status]int{runtime.Queued: 7, runtime.Running: 1})
}

func testExpired(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Waiting)
	interrupt := func(id string, status string, expires *time.Time) *runtime.Interrupt {
		return &runtime.Interrupt{ID: id, RunKey: run.Key, Status: status, ExpiresAt: expires, CreatedAt: at(0)}
	}
	f.put(t,
		interrupt("late", "open", new(at(20))), interrupt("second", "open", new(at(5))),
		interrupt("first", "open", new(at(4))), interrupt("never", "open", nil),
		interrupt("answered", "resolved", new(at(1))))
	got, err := f.Expired(t.Context(), at(5), 10)
	equal(t, "Expired", got, err, []runtime.Interrupt{
		*interrupt("first", "open", new(at(4))), *interrupt("second", "open", new(at(5))),
	})
	got, err = f.Expired(t.Context(), at(100), 1)
	equal(t, "expired with a limit", len(got), err, 1)
}

func testSteps(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", runtime.Running)
	var rows []runtime.Row
	for n := 1; n <= 5; n++ {
		rows = append(rows, &runtime.Step{RunKey: run.Key, Number: n, Status: runtime.Completed, StartedAt: at(n)})
	}
	f.put(t, rows...)
	page, total, err := f.Steps(t.Context(), run.Key, 2, 2)
	equal(t, "total", total, err, 5)
	equal(t, "page", []int{page[0].Number, page[1].Number}, err, []int{3, 4})
}

func testMessages(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	first := f.newRun(t, thread, "first", runtime.Completed)
	second := f.newRun(t, thread, "second", runtime.Running)
	put := func(run *runtime.Run, id string, seq int64, state runtime.MessageState) {
		f.put(t, message(run, id, seq, state))
	}
	put(first, "c", 3, runtime.MessageConsumed) // keys and seqs need not agree
	put(first, "a", 1, runtime.MessageConsumed)
	put(first, "b", 2, runtime.MessageHidden)
	put(second, "d", 4, runtime.MessageConsumed)
	put(second, "q1", 0, runtime.MessageQueued)
	put(second, "q2", 0, runtime.MessageQueued)
	tool := message(second, "t", 5, runtime.MessageConsumed)
	tool.Role, tool.ToolCallID = agui.RoleTool, "call"
	f.put(t, tool)
	f.put(t, message(f.newRun(t, f.newThread(t, "ann", "other"), "third", runtime.Running), "a", 9, runtime.MessageConsumed))

	check := func(what string, want []string) func([]runtime.Message, error) {
		return func(got []runtime.Message, err error) {
			t.Helper()
			equal(t, what, ids(got), err, want)
		}
	}
	ctx := t.Context()
	check("all", []string{"a", "c", "d", "t"})(f.Messages(ctx, thread.Key, 0, 10))
	check("the newest", []string{"d", "t"})(f.Messages(ctx, thread.Key, 0, 2))
	check("up to an event", []string{"a", "c"})(f.Messages(ctx, thread.Key, 39, 10))
	check("queued", []string{"q1", "q2"})(f.Queued(ctx, second.Key))
	check("by id", []string{"b", "q1", "t"})(f.MessagesByID(ctx, thread.Key, []string{"q1", "call", "b", "nowhere"}))
	check("by no id", []string{})(f.MessagesByID(ctx, thread.Key, nil))
	page, total, err := f.RunMessages(ctx, first.Key, 0, 1)
	check("of a run", []string{"c"})(page, err)
	equal(t, "total of a run", total, err, 2)
	page, _, err = f.RunMessages(ctx, first.Key, page[0].Key, 10)
	check("of a run, next page", []string{"a"})(page, err)
	seq, err := f.LastSeq(ctx, thread.Key)
	equal(t, "LastSeq", seq, err, 5)
	seq, err = f.LastSeq(ctx, thread.Key+100)
	equal(t, "LastSeq of nothing", seq, err, 0)
}

// message is a message written by event 10 times its seq.
func message(run *runtime.Run, id string, seq int64, state runtime.MessageState) *runtime.Message {
	return &runtime.Message{
		ThreadKey: run.ThreadKey, RunKey: run.Key, Seq: seq, EventID: seq * 10, State: state, CreatedAt: at(0),
		Message: agui.Message{ID: id, Role: agui.RoleUser, Content: "content of " + id},
	}
}

func testHideMessages(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	runs := make([]*runtime.Run, 5)
	for i := range runs {
		runs[i] = f.newRun(t, thread, fmt.Sprint("run", i), runtime.Completed)
		f.put(t, message(runs[i], fmt.Sprint("m", i), int64(i+1), runtime.MessageConsumed))
	}
	queued := message(runs[1], "queued", 0, runtime.MessageQueued)
	elsewhere := message(f.newRun(t, other, "elsewhere", runtime.Completed), "m", 9, runtime.MessageConsumed)
	f.put(t, queued, elsewhere)
	hide := func(runKeys []int64, fromSeq int64, want ...string) {
		t.Helper()
		f.commit(t, nil, func(tx runtime.Tx) error { return tx.HideMessages(thread.Key, runKeys, fromSeq) })
		got, err := f.Messages(t.Context(), thread.Key, 0, 10)
		equal(t, "Messages", ids(got), err, want)
	}
	hide(nil, 0, "m0", "m1", "m2", "m3", "m4")
	hide([]int64{runs[1].Key, elsewhere.RunKey}, 0, "m0", "m2", "m3", "m4")
	hide(nil, 5, "m0", "m2", "m3")
	hide([]int64{runs[0].Key}, 4, "m2")
	left, err := f.Queued(t.Context(), runs[1].Key)
	equal(t, "queued", len(left), err, 0)
	got, err := f.Messages(t.Context(), other.Key, 0, 10)
	equal(t, "the other thread's", ids(got), err, []string{"m"})
	seq, err := f.LastSeq(t.Context(), thread.Key)
	equal(t, "LastSeq", seq, err, 5)
}

func testDeleteRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	var runs []*runtime.Run
	for i := range 3 {
		run := f.newRun(t, thread, fmt.Sprint("run", i), runtime.Completed)
		first := int64(1 + i*10)
		f.commit(t, events(run, first, first+9), func(tx runtime.Tx) error {
			return tx.Put(
				&runtime.RunName{RunKey: run.Key, Name: fmt.Sprint("name", i)},
				&runtime.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: first, Last: first + 9},
				&runtime.Step{RunKey: run.Key, Number: 1, StartedAt: at(0)}, &runtime.Node{RunKey: run.Key, NodeID: "n"},
				&runtime.Memo{RunKey: run.Key, Generation: 1, Name: "m", N: 1},
				&runtime.Interrupt{RunKey: run.Key, ID: "i", CreatedAt: at(0)},
				message(run, fmt.Sprint("m", i), int64(i+1), runtime.MessageConsumed))
		})
		runs = append(runs, run)
	}
	gone := runs[1]
	f.commit(t, nil, func(tx runtime.Tx) error {
		if err := tx.Put(&runtime.Node{RunKey: gone.Key, NodeID: "late"}); err != nil {
			return err
		}
		return tx.DeleteRun(gone.Key)
	})

	ctx := t.Context()
	for _, run := range runs {
		want := 1
		if run == gone {
			want = 0
		}
		what := func(s string) string { return s + " of " + run.ID }
		named, err := f.RunsByName(ctx, "project", "ann", run.ID)
		equal(t, what("names"), len(named), err, want)
		spans, err := f.Spans(ctx, run.Key)
		equal(t, what("spans"), len(spans), err, want)
		steps, _, err := f.Steps(ctx, run.Key, 0, 10)
		equal(t, what("steps"), len(steps), err, want)
		nodes, err := f.Nodes(ctx, run.Key)
		equal(t, what("nodes"), len(nodes), err, want)
		memos, err := f.Memos(ctx, run.Key, 1)
		equal(t, what("memos"), len(memos), err, want)
		interrupts, err := f.Interrupts(ctx, run.Key)
		equal(t, what("interrupts"), len(interrupts), err, want)
		messages, _, err := f.RunMessages(ctx, run.Key, 0, 10)
		equal(t, what("messages"), len(messages), err, want)
	}
	got, err := f.Events(ctx, thread.Key, 0, 100)
	want := append(events(runs[0], 1, 10), events(runs[2], 21, 30)...)
	for i := range want {
		want[i].RunID = "run0"
		if i >= 10 {
			want[i].RunID = "run2"
		}
	}
	equal(t, "Events", got, err, want)
	f.newRun(t, thread, "run1", runtime.Queued) // the name is free again
}
