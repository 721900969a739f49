package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

func testOneActiveRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	first := f.newRun(t, thread, "first", data.Running)
	second := f.newRun(t, thread, "second", data.Queued)
	f.refuse(t, f.runOf(t, thread, "third", data.Waiting))
	second.Status = data.Running
	f.refuse(t, &second.RunHead)
	first.Status = data.Waiting
	f.put(t, &first.RunHead)
	f.refuse(t, &second.RunHead)
	f.newRun(t, f.newThread(t, "ann", "other"), "elsewhere", data.Running)

	// In one transaction one run ends and the next begins, in any order.
	head := func(run *data.Run, status data.Status) *data.RunHead {
		head := run.RunHead
		head.Status = status
		return &head
	}
	f.put(t, head(second, data.Queued), head(first, data.Waiting), head(second, data.Running), head(first, data.Completed))
	third := f.runOf(t, thread, "third", data.Running)
	f.put(t, third, named(third), head(second, data.Failed))
	for run, want := range map[*data.Run]data.Status{first: data.Completed, second: data.Failed, third: data.Running} {
		got, err := f.Run(t.Context(), run.Key)
		equal(t, run.ID, got.Status, err, want)
	}
}

func testNames(t *testing.T, f *fixture) {
	main := f.newThread(t, "ann", "main")
	run := f.newRun(t, main, "run", data.Completed)
	name := func(run *data.Run, name string) *data.RunName {
		return &data.RunName{RunKey: run.Key, Project: run.Project, User: run.User, Name: name}
	}
	f.put(t, name(run, "later"), name(run, "last"))
	other := f.newRun(t, f.newThread(t, "ann", "other"), "other", data.Completed)
	for _, taken := range []string{"run", "later"} {
		again := f.runOf(t, main, taken, data.Queued)
		f.refuse(t, again, named(again))
		f.refuse(t, name(other, taken))
	}
	f.refuse(t, name(other, "new"), name(run, "new"))
	bobs := f.newRun(t, f.newThread(t, "bob", "main"), "later", data.Completed)

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
		got, err := f.ByProject().RunsByName(t.Context(), "project", test.user, test.name)
		equal(t, "RunsByName "+test.user+" "+test.name, keys(got), err, test.want)
	}
	elsewhere, err := f.ByProject().RunsByName(t.Context(), "elsewhere", "", "run")
	equal(t, "in another project", len(elsewhere), err, 0)
}

func testThreadNames(t *testing.T, f *fixture) {
	want := f.newThread(t, "ann", "main")
	again := f.threadOf(t, "ann", "main")
	again.ConversationID = "other"
	f.refuse(t, again)
	f.newThread(t, "bob", "main")
	got, err := f.ByProject().ThreadByID(t.Context(), "project", "ann", "main")
	equal(t, "ThreadByID", got, err, *want)
	_, err = f.ByProject().ThreadByConversation(t.Context(), "other", want.ConversationID)
	if !errors.Is(err, data.ErrNotFound) {
		t.Errorf("a conversation of another project: %v", err)
	}
}

func testLatestThread(t *testing.T, f *fixture) {
	first := f.newThread(t, "ann", "first")
	second := f.newThread(t, "ann", "second")
	f.newThread(t, "bob", "third")
	got, err := f.ByProject().LatestThread(t.Context(), "project", "ann")
	equal(t, "LatestThread", got, err, *second)
	first.UpdatedAt = at(1)
	f.put(t, &first.ThreadHead)
	got, err = f.ByProject().LatestThread(t.Context(), "project", "ann")
	equal(t, "LatestThread", got, err, *first)
}

func testOpenRuns(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	put := func(id string, status data.Status, answered bool, turn int64, queued int) int64 {
		run := f.runOf(t, thread, id, status)
		run.Answered, run.Turn, run.QueuedAt = answered, turn, at(queued)
		f.put(t, run)
		return run.Key
	}
	second := put("second", data.Queued, false, 2, 0)
	first := put("first", data.Queued, false, 1, 1)
	late := put("of an older database", data.Queued, false, 0, 9)
	early := put("early", data.Queued, false, 0, 2)
	same := put("same", data.Queued, false, 0, 2)
	answered := put("answered", data.Queued, true, 5, 20)
	put("done", data.Completed, false, 0, 0)
	active := put("active", data.Waiting, false, 9, 30)
	want := []int64{active, answered, early, same, late, first, second}
	got, err := f.OpenRuns(t.Context(), thread.Key)
	equal(t, "OpenRuns", headKeys(got), err, want)
	equal(t, "of a view", headKeys(f.views(t, data.Ask{Thread: thread.Key})[0].Runs), nil, want)
}

func testRuns(t *testing.T, f *fixture) {
	ann, bob := f.newThread(t, "ann", "main"), f.newThread(t, "bob", "main")
	put := func(thread *data.Thread, id string, change func(*data.Run)) int64 {
		run := f.runOf(t, thread, id, data.Completed)
		change(run)
		f.put(t, run)
		return run.Key
	}
	a := put(ann, "a", func(*data.Run) {})
	b := put(ann, "b", func(r *data.Run) { r.Status = data.Failed })
	c := put(bob, "c", func(r *data.Run) { r.Agent, r.WorkflowID = "", "flow" })
	d := put(bob, "d", func(r *data.Run) { r.CreatedAt = at(1000) })
	put(bob, "e", func(r *data.Run) { r.Project = "elsewhere" })
	for _, test := range []struct {
		filter data.RunFilter
		want   []int64
		total  int
	}{
		{data.RunFilter{}, []int64{d, c, b, a}, 4},
		{data.RunFilter{User: "ann"}, []int64{b, a}, 2},
		{data.RunFilter{Statuses: []data.Status{data.Failed}}, []int64{b}, 1},
		{data.RunFilter{Agent: "echo"}, []int64{d, b, a}, 3},
		{data.RunFilter{WorkflowID: "flow"}, []int64{c}, 1},
		{data.RunFilter{ThreadKey: bob.Key, Agent: "echo"}, []int64{d}, 1},
		{data.RunFilter{Since: at(1)}, []int64{d}, 1},
		{data.RunFilter{Limit: 2}, []int64{d, c}, 4},
		{data.RunFilter{Limit: 2, BeforeKey: c}, []int64{b, a}, 4},
		{data.RunFilter{User: "nobody"}, []int64{}, 0},
		{data.RunFilter{Statuses: []data.Status{data.Failed, data.Completed}}, []int64{d, c, b, a}, 4},
		{data.RunFilter{Statuses: []data.Status{data.Failed, data.Queued}}, []int64{b}, 1},
		{data.RunFilter{Statuses: []data.Status{data.Failed, data.Completed}, Limit: 2}, []int64{d, c}, 4},
		{data.RunFilter{Statuses: []data.Status{data.Failed, data.Completed}, BeforeKey: c}, []int64{b, a}, 4},
		{data.RunFilter{Statuses: []data.Status{data.Failed, data.Completed}, User: "ann"}, []int64{b, a}, 2},
		{data.RunFilter{User: "ann", Statuses: []data.Status{data.Completed}}, []int64{a}, 1},
		{data.RunFilter{User: "ann", Statuses: []data.Status{data.Completed}, BeforeKey: a}, []int64{}, 1},
		{data.RunFilter{Until: at(1)}, []int64{c, b, a}, 3},
		{data.RunFilter{ThreadKey: bob.Key, Since: at(1)}, []int64{d}, 1},
		{data.RunFilter{Since: at(1), Until: at(1000)}, []int64{}, 0},
		{data.RunFilter{Oldest: true}, []int64{a, b, c, d}, 4},
		{data.RunFilter{Oldest: true, Limit: 2, BeforeKey: b}, []int64{c, d}, 4},
		{data.RunFilter{Oldest: true, ThreadKey: bob.Key}, []int64{c, d}, 2},
		{data.RunFilter{Oldest: true, User: "ann", Statuses: []data.Status{data.Completed, data.Failed}, Limit: 1}, []int64{a}, 2},
		{data.RunFilter{Oldest: true, Statuses: []data.Status{data.Completed, data.Failed}, BeforeKey: b}, []int64{c, d}, 4},
	} {
		test.filter.Project, test.filter.Count = "project", true
		got, total, err := Parts(f.ByProject().Runs(t.Context(), test.filter))
		equal(t, fmt.Sprintf("Runs %+v", test.filter), keys(got), err, test.want)
		equal(t, fmt.Sprintf("total of %+v", test.filter), total, err, test.total)
	}
	got, total, err := Parts(f.ByProject().Runs(t.Context(), data.RunFilter{Count: true}))
	equal(t, "total without a filter", total, err, 5)
	equal(t, "runs without a filter", len(got), err, 5)
}

// A page that starts behind a run of another project reveals nothing about that run.
func testRunsBehindForeign(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	put := func(id, project string, created int) int64 {
		run := f.runOf(t, thread, id, data.Completed)
		run.Project, run.CreatedAt = project, at(created)
		f.put(t, run)
		return run.Key
	}
	first := put("first", "project", 10)
	for _, created := range []int{0, 10, 30} { // whenever it was
		foreign := put(fmt.Sprint("foreign", created), "elsewhere", created)
		got, _, err := Parts(f.ByProject().Runs(t.Context(), data.RunFilter{Project: "project", BeforeKey: foreign}))
		equal(t, fmt.Sprintf("behind one that was created at %d", created), keys(got), err, []int64{first})
		got, _, err = Parts(f.ByProject().Runs(t.Context(), data.RunFilter{Project: "project", BeforeKey: foreign, Oldest: true}))
		equal(t, fmt.Sprintf("the oldest behind one that was created at %d", created), keys(got), err, []int64{})
	}
}

// After a clock was set back, keys and times disagree.
func testRunsByTime(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	put := func(id string, created int) int64 {
		run := f.runOf(t, thread, id, data.Completed)
		run.CreatedAt = at(created)
		f.put(t, run)
		return run.Key
	}
	first, early, late, same := put("first", 10), put("early", 5), put("late", 20), put("same", 10)
	for _, test := range []struct {
		filter data.RunFilter
		want   []int64
	}{
		{data.RunFilter{Project: "project"}, []int64{late, same, first, early}},
		{data.RunFilter{Project: "project", Since: at(6)}, []int64{late, same, first}},
		{data.RunFilter{Project: "project", Since: at(11)}, []int64{late}},
		{data.RunFilter{Project: "project", Since: at(21)}, nil},
		{data.RunFilter{Project: "project", User: "ann", Statuses: []data.Status{data.Completed}}, []int64{late, same, first, early}},
		// The runs of a thread are in the order of their creation in it.
		{data.RunFilter{ThreadKey: thread.Key}, []int64{same, late, early, first}},
		{data.RunFilter{Project: "project", User: "ann", ThreadKey: thread.Key}, []int64{same, late, early, first}},
		{data.RunFilter{Project: "project", User: "ann", ThreadKey: thread.Key, Oldest: true}, []int64{first, early, late, same}},
	} {
		for _, test.filter.Limit = range []int{1, 3, 10} {
			got, filter := []int64(nil), test.filter
			for more := true; more; {
				page, err := f.ByProject().Runs(t.Context(), filter)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Rows {
					filter.BeforeKey = page.Rows[i].Key
					got = append(got, filter.BeforeKey)
				}
				more = page.More
			}
			equal(t, fmt.Sprintf("pages of %+v", test.filter), got, nil, test.want)
		}
	}
}

func testRunsBounded(t *testing.T, f *fixture) {
	if testing.Short() {
		t.Skip("writes ten thousand runs")
	}
	const n = 10_010
	thread := f.newThread(t, "ann", "main")
	var rows []data.Row
	for i := range n {
		rows = append(rows, f.runOf(t, thread, fmt.Sprint("run", i), data.Completed))
	}
	f.put(t, rows...)
	for filter, want := range map[*data.RunFilter]bool{
		{}: false, {User: "nobody"}: true, {Statuses: []data.Status{data.Completed, data.Failed}}: false, {Since: at(1)}: true,
	} {
		filter.Project, filter.Limit, filter.Count = "project", 3, true
		p, err := f.ByProject().Runs(t.Context(), *filter)
		equal(t, fmt.Sprintf("whether %+v is counted", filter), p.Counted, err, want)
		filter.Count = false
		p, err = f.ByProject().Runs(t.Context(), *filter)
		equal(t, fmt.Sprintf("the count that %+v does not ask for", filter), []any{p.Counted, p.Total}, err, []any{false, 0})
	}
}

func testPlaces(t *testing.T, f *fixture) {
	status := func(run *data.Run, s data.Status) data.Row {
		run.Status = s
		return &run.RunHead
	}
	place := func(todo data.Todo, run *data.Run) data.Row {
		return &data.Place{ThreadKey: run.ThreadKey, Todo: todo, RunKey: run.Key, Project: run.Project, User: run.User, Workflow: run.WorkflowID, Agent: run.Agent, Since: run.QueuedAt}
	}
	a, b := f.newRun(t, f.newThread(t, "ann", "a"), "a", data.Queued), f.newRun(t, f.newThread(t, "ann", "b"), "b", data.Queued)
	other := f.newRun(t, f.newThread(t, "ann", "c"), "c", data.Completed)
	misplaced := func(what string, want ...int64) {
		t.Helper()
		got, err := f.Queue().Misplaced(t.Context(), 10)
		equal(t, what, got, err, want)
	}
	misplaced("queued without rows", a.ThreadKey, b.ThreadKey)
	got, err := f.Queue().Misplaced(t.Context(), 1)
	equal(t, "one of them", got, err, []int64{a.ThreadKey})
	f.put(t, place(data.ToClaim, a), place(data.ToClaim, b))
	misplaced("with their rows")
	f.put(t, status(a, data.Running))
	misplaced("a row of a run that executes", a.ThreadKey)
	f.put(t, place(data.ToCancel, a))
	misplaced("which is to be cancelled")
	f.put(t, status(a, data.Cancelled))
	misplaced("and has ended", a.ThreadKey)
	f.put(t, place(data.NoTodo, a), place(data.NoTodo, a))
	misplaced("without a row")
	f.put(t, place(data.ToClaim, a), place(data.NoTodo, a), place(data.ToClaim, other), place(data.NoTodo, other), place(data.ToClaim, b))
	misplaced("put and removed in one batch")
	f.put(t, status(b, data.Running), place(data.NoTodo, b))
	misplaced("claimed")
	f.put(t, &data.Place{ThreadKey: b.ThreadKey, Todo: data.ToClaim, RunKey: other.Key, Project: "project"})
	misplaced("a row with another thread's run", b.ThreadKey)
}

func testOrphans(t *testing.T, f *fixture) {
	var orphans []int64
	running := func(owner string) *data.Run {
		run := f.runOf(t, f.newThread(t, "ann", owner), "run of "+owner, data.Running)
		run.Owner = owner
		f.put(t, run)
		return run
	}
	for i := range 3 {
		orphans = append(orphans, running(data.ReleasedBy("instance-1", int64(i), 1)).Key)
	}
	mine := running("instance-1")
	orphans = append(orphans, running("nobody").Key)
	f.newRun(t, f.newThread(t, "ann", "waiting"), "waiting", data.Waiting)
	got := []int64{}
	for thread := int64(0); ; {
		page, err := f.Queue().Orphans(t.Context(), thread, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, headKeys(page)...)
		if len(page) < 2 {
			break
		}
		thread = page[1].ThreadKey
	}
	equal(t, "Orphans", got, nil, orphans)
	if err := f.Members().Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := f.Queue().Orphans(t.Context(), mine.ThreadKey-1, 1)
	equal(t, "Orphans once the owner has left", headKeys(page), err, []int64{mine.Key})
}

func testExpired(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Waiting)
	interrupt := func(id string, status string, expires *time.Time) *data.Interrupt {
		return &data.Interrupt{ID: id, RunKey: run.Key, Status: status, ExpiresAt: expires, CreatedAt: at(0)}
	}
	f.put(t,
		interrupt("late", data.InterruptOpen, new(at(20))), interrupt("second", data.InterruptOpen, new(at(5))),
		interrupt("first", data.InterruptOpen, new(at(4))), interrupt("never", data.InterruptOpen, nil),
		interrupt("answered", data.InterruptAnswered, new(at(1))))
	got, err := f.Queue().Expired(t.Context(), at(5), 10)
	equal(t, "Expired", got, err, []data.Interrupt{
		*interrupt("first", data.InterruptOpen, new(at(4))), *interrupt("second", data.InterruptOpen, new(at(5))),
	})
	got, err = f.Queue().Expired(t.Context(), at(100), 1)
	equal(t, "expired with a limit", len(got), err, 1)
}

func testSteps(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	var rows []data.Row
	for n := 1; n <= 5; n++ {
		rows = append(rows, &data.Step{RunKey: run.Key, Number: n, NodeID: []string{"even", "odd"}[n%2], Status: data.Completed, StartedAt: at(n)})
	}
	f.put(t, rows...)
	page, total, err := Parts(f.ByProject().Steps(t.Context(), run.Project, run.Key, "", 2, 2))
	equal(t, "total", total, err, 5)
	equal(t, "page", []int{page[0].Number, page[1].Number}, err, []int{3, 4})
	page, total, err = Parts(f.ByProject().Steps(t.Context(), run.Project, run.Key, "odd", 1, 1))
	equal(t, "total of a node", total, err, 3)
	equal(t, "page of a node", []int{len(page), page[0].Number}, err, []int{1, 3})
}

func testAnswers(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Waiting)
	other := f.newRun(t, f.newThread(t, "ann", "other"), "other", data.Waiting)
	var rows []data.Row
	for _, r := range []*data.Run{run, other} {
		for i, id := range []string{"a", "b", "c"} {
			rows = append(rows,
				&data.Interrupt{ID: id, RunKey: r.Key, Step: 1, Place: id, Body: object(id), Status: data.InterruptOpen, CreatedAt: at(i)},
				&data.Memo{RunKey: r.Key, Generation: 1, Step: 1, Place: id, CallID: id})
		}
	}
	f.put(t, rows...)
	answer := func(r *data.Run, id string) *data.Answer {
		return &data.Answer{
			RunKey: r.Key, Generation: 1, ID: id, Step: 1, Place: id, Payload: object("payload " + id), Output: object("output " + id),
		}
	}
	f.put(t, answer(run, "a"), &data.Withdraw{RunKey: run.Key}, answer(other, "b"), answer(other, "c"))
	check := func(r *data.Run, statuses []string, done ...string) {
		t.Helper()
		interrupts, err := f.Interrupts(t.Context(), r.Key)
		got := []string{}
		for _, in := range interrupts {
			got = append(got, in.Status)
			if want := in.Status == data.InterruptAnswered || in.Status == data.InterruptResolved; (string(in.Payload) == string(object("payload "+in.ID))) != want {
				t.Errorf("%s %s has the payload %s", r.ID, in.ID, in.Payload)
			}
			if string(in.Body) != string(object(in.ID)) {
				t.Errorf("%s %s has the body %s", r.ID, in.ID, in.Body)
			}
		}
		equal(t, r.ID, got, err, statuses)
		memos, err := f.Memos(t.Context(), r.Key, 1)
		equal(t, "memos", len(memos), err, 3)
		for _, m := range memos {
			if want := slices.Contains(done, m.Place); m.Done != want || (m.Output != nil) != want || m.CallID == "" {
				t.Errorf("%s: memo %+v, want it done: %v", r.ID, m, want)
			}
		}
	}
	check(run, []string{data.InterruptResolved, data.InterruptCancelled, data.InterruptCancelled}, "a")
	check(other, []string{data.InterruptOpen, data.InterruptAnswered, data.InterruptAnswered}, "b", "c")
}

func testDeleteRun(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	var runs []*data.Run
	for i := range 3 {
		run := f.newRun(t, thread, fmt.Sprint("run", i), data.Completed)
		first := int64(1 + i*10)
		f.commit(t, events(run, first, first+9),
			&data.RunName{RunKey: run.Key, Project: "project", User: "ann", Name: fmt.Sprint("name", i)},
			&data.Span{RunKey: run.Key, N: 1, ThreadKey: thread.Key, RunID: run.ID, First: first, Last: first + 9},
			&data.Step{RunKey: run.Key, Number: 1, StartedAt: at(0)}, &data.Node{RunKey: run.Key, NodeID: "n"},
			&data.Memo{RunKey: run.Key, Generation: 1, Place: "m#1"},
			&data.Interrupt{RunKey: run.Key, ID: "i", CreatedAt: at(0)},
			&data.IdempotencyKey{Scope: run.ID, RunKey: run.Key, Answer: object("answer"), CreatedAt: at(0)},
			message(run, fmt.Sprint("m", i), int64(i+1), data.MessageConsumed))
		runs = append(runs, run)
	}
	gone, ctx := runs[1], t.Context()
	part := &data.Delete{ThreadKey: thread.Key, RunKey: gone.Key, Limit: 4, Last: 20}
	f.put(t, part)
	left, err := f.Queue().Deletions(ctx, 0, 0, 10)
	equal(t, "what others have left, while this one deletes", left, err, nil)
	for n := 0; part.Left && n < 20; n++ {
		f.put(t, message(gone, "m1", 2, data.MessageConsumed)) // by a claim that was prepared before and shows the message again
		f.put(t, part)
	}
	shown, err := f.Messages(ctx, thread.Key, 0, 10)
	equal(t, "messages that are left", len(shown), err, 2)
	f.put(t, &data.Delete{ThreadKey: thread.Key, RunKey: gone.Key, Limit: 1000}) // it is gone already

	for _, run := range runs { // their keys are remembered
		v := f.views(t, data.Ask{Scope: run.ID})[0]
		want := data.Remembered{RunKey: run.Key, Answer: object("answer"), CreatedAt: at(0)}
		if run == gone {
			want.RunGone, want.Answer = true, nil
		}
		equal(t, "key of "+run.ID, v.Remembered[run.ID], nil, want)
	}
	for _, run := range runs {
		want := 1
		if run == gone {
			want = 0
		}
		what := func(s string) string { return s + " of " + run.ID }
		named, err := f.ByProject().RunsByName(ctx, "project", "ann", run.ID)
		equal(t, what("names"), len(named), err, want)
		spans, err := f.Spans(ctx, run.Key)
		equal(t, what("spans"), len(spans), err, want)
		steps, _, err := Parts(f.ByProject().Steps(ctx, run.Project, run.Key, "", 0, 10))
		equal(t, what("steps"), len(steps), err, want)
		nodes, err := f.Nodes(ctx, run.Key)
		equal(t, what("nodes"), len(nodes), err, want)
		memos, err := f.Memos(ctx, run.Key, 1)
		equal(t, what("memos"), len(memos), err, want)
		interrupts, err := f.Interrupts(ctx, run.Key)
		equal(t, what("interrupts"), len(interrupts), err, want)
		messages, _, err := Parts(f.ByProject().RunMessages(ctx, run.Project, run.Key, 0, 10))
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
	f.newRun(t, thread, "run1", data.Queued) // the name is free again

	f.put(t, &data.Delete{ThreadKey: thread.Key, RunKey: runs[2].Key, Limit: 4, Last: 30})
	if err := f.Members().Fence(ctx, "instance-1"); err != nil {
		t.Fatal(err)
	}
	left, err = f.Queue().Deletions(ctx, 0, 0, 10)
	equal(t, "what it has left", left, err, []data.Deletion{{ThreadKey: thread.Key, RunKey: runs[2].Key, Project: "project", Last: 30}})
}
