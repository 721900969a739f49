package storagetest

import (
	"fmt"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

func nameOf(thread *model.Thread) model.Name {
	return model.Name{Project: thread.Project, User: thread.User, ID: thread.ID}
}

func testViewThread(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "bob", "main")
	nobody := model.Name{Project: "project", User: "nobody", ID: "main"}
	asks := []model.Ask{
		{Thread: thread.Key}, {Name: nameOf(other)}, {Thread: other.Key}, {Name: nobody}, {Thread: 999}, {}, {Name: nobody}, {},
	}
	for n := 1; n <= len(asks); n++ { // also alone
		views := f.views(t, asks[:n]...)
		for i, v := range views {
			want := []*model.Thread{thread, other, other, nil, nil, nil, nil, nil}[i]
			if v.Exists != (want != nil) {
				t.Errorf("view %d exists: %v", i, v.Exists)
			}
			if want != nil {
				equal(t, fmt.Sprint("view ", i), v.Thread, nil, want.ThreadHead)
			} else {
				equal(t, fmt.Sprint("view ", i), v.Thread, nil, model.ThreadHead{})
			}
			if len(v.Runs)+len(v.Asked)+len(v.Inbox)+len(v.Known)+len(v.Names)+len(v.Remembered) > 0 || v.Now.IsZero() {
				t.Errorf("view %d: %+v", i, v)
			}
		}
	}
	views := f.views(t, asks...)
	for i, a := range views {
		for j, b := range views {
			if same := i == j || i+j == 3 && i > 0 && j > 0 || i+j == 9 && (i == 3 || j == 3); (a == b) != same {
				t.Errorf("views %d and %d are the same: %v", i, j, a == b)
			}
		}
	}
	for i, a := range asks {
		v := f.views(t, a)[0]
		if v.Exists != (i < 3) {
			t.Errorf("view %d alone exists: %v", i, v.Exists)
		}
	}
}

func testViewRuns(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	over, last := f.newRun(t, thread, "over", model.Completed), f.newRun(t, thread, "last", model.Failed)
	queued, active := f.newRun(t, thread, "queued", model.Queued), f.newRun(t, thread, "active", model.Running)
	elsewhere := f.newRun(t, other, "elsewhere", model.Completed)
	alone := f.newRun(t, other, "alone", model.Running)
	heads := func(runs ...*model.Run) (list []model.RunHead) {
		for _, run := range runs {
			list = append(list, run.RunHead)
		}
		return list
	}
	for _, test := range []struct {
		ask  model.Ask
		want []model.RunHead
	}{
		{model.Ask{Thread: thread.Key}, heads(active, queued)},
		{model.Ask{Name: nameOf(thread), Runs: []int64{last.Key}}, heads(active, queued, last)},
		{model.Ask{Thread: thread.Key, Runs: []int64{last.Key, active.Key, over.Key, last.Key}}, heads(active, queued, over, last)},
		{model.Ask{Thread: thread.Key, Runs: []int64{elsewhere.Key, 999}}, heads(active, queued)},
		{model.Ask{Thread: other.Key}, heads(alone)},
	} {
		v := f.views(t, test.ask)[0]
		equal(t, fmt.Sprintf("%+v", test.ask), v.Runs, nil, test.want)
		for i := range test.want {
			if got := v.Run(test.want[i].Key); got != &v.Runs[i] {
				t.Errorf("Run(%d) is %+v", test.want[i].Key, got)
			}
		}
	}
	views := f.views(t, model.Ask{Thread: other.Key}, model.Ask{Thread: thread.Key, Runs: []int64{over.Key}}, model.Ask{Name: nameOf(other), Runs: []int64{elsewhere.Key}})
	equal(t, "the first of three", views[0].Runs, nil, heads(alone, elsewhere))
	equal(t, "the second of three", views[1].Runs, nil, heads(active, queued, over))
}

func testViewInbox(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, next := f.newRun(t, thread, "run", model.Running), f.newRun(t, thread, "next", model.Queued)
	over := f.newRun(t, thread, "over", model.Completed)
	empty := f.newRun(t, f.newThread(t, "ann", "other"), "empty", model.Running)
	bytes := map[int64]int{}
	queue := func(run *model.Run, id string) {
		m := message(run, id, 0, model.MessageQueued)
		m.Content = "ünï \U0001f600 " + id
		bytes[run.Key] += len(m.AppendJSON(nil, agui.Stored))
		f.put(t, m)
	}
	queue(run, "a")
	queue(next, "b")
	queue(run, "c")
	queue(over, "d")
	f.put(t, message(run, "taken", 1, model.MessageConsumed), message(run, "hidden", 0, model.MessageHidden))
	last := func(run *model.Run) int64 {
		list, err := f.Queued(t.Context(), run.Key)
		if err != nil || len(list) == 0 {
			t.Fatalf("Queued: %d, %v", len(list), err)
		}
		return list[len(list)-1].Key
	}
	want := map[int64]model.Inbox{
		run.Key:  {Messages: 2, Bytes: bytes[run.Key], Last: last(run)},
		next.Key: {Messages: 1, Bytes: bytes[next.Key], Last: last(next)},
	}
	equal(t, "Inbox", f.views(t, model.Ask{Thread: thread.Key})[0].Inbox, nil, want)
	equal(t, "an empty one", f.views(t, model.Ask{Thread: empty.ThreadKey})[0].Inbox, nil, map[int64]model.Inbox{})
	want[over.Key] = model.Inbox{Messages: 1, Bytes: bytes[over.Key], Last: last(over)}
	views := f.views(t, model.Ask{Thread: empty.ThreadKey}, model.Ask{Thread: thread.Key, Runs: []int64{over.Key}})
	equal(t, "with that of a run that is over", views[1].Inbox, nil, want)
}

func testViewAsked(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	waiting := f.newRun(t, thread, "waiting", model.Waiting)
	answered := f.runOf(t, thread, "answered", model.Queued)
	answered.Answered = true
	f.put(t, answered)
	over := f.newRun(t, thread, "over", model.Completed)
	elsewhere := f.newRun(t, other, "elsewhere", model.Running)
	ask := func(run *model.Run, id string, created int, status string) model.Asked {
		a := model.Asked{RunKey: run.Key, ID: id, Step: 2, Place: "p " + id, Frontend: created%2 == 0, Status: status}
		f.put(t, &model.Interrupt{
			RunKey: run.Key, ID: id, Step: 2, Place: a.Place, Frontend: a.Frontend, Status: status, Body: object("b"),
			Payload: object("p"), CreatedAt: at(created),
		})
		return a
	}
	late := ask(waiting, "late", 9, model.InterruptOpen)
	first := ask(answered, "first", 1, model.InterruptAnswered)
	second := ask(waiting, "second", 2, model.InterruptResolved)
	old := ask(over, "old", 0, model.InterruptCancelled)
	ask(over, "older", 0, model.InterruptCancelled)
	far := ask(elsewhere, "old", 5, model.InterruptOpen)
	for _, test := range []struct {
		ask  model.Ask
		want []model.Asked
	}{
		{model.Ask{Thread: thread.Key}, []model.Asked{first, second, late}},
		{model.Ask{Thread: thread.Key, Interrupts: []string{"old", "second", "nowhere"}}, []model.Asked{old, first, second, late}},
		{model.Ask{Thread: other.Key}, nil},
		{model.Ask{Thread: other.Key, Interrupts: []string{"old"}}, []model.Asked{far}},
	} {
		equal(t, fmt.Sprintf("%+v", test.ask), f.views(t, test.ask)[0].Asked, nil, test.want)
		views := f.views(t, model.Ask{}, test.ask)
		equal(t, fmt.Sprintf("%+v, not alone", test.ask), views[1].Asked, nil, test.want)
	}
	views := f.views(t, model.Ask{Thread: thread.Key}, model.Ask{Thread: other.Key})
	equal(t, "of both", views[0].Asked, nil, []model.Asked{first, second, late})
}

func testViewKnown(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", model.Running)
	other := f.newRun(t, f.newThread(t, "ann", "other"), "other", model.Running)
	tool := message(run, "tool", 2, model.MessageConsumed)
	tool.Role, tool.ToolCallID = agui.RoleTool, "call"
	f.put(t, tool, message(run, "said", 1, model.MessageConsumed), message(run, "hidden", 0, model.MessageHidden),
		message(run, "queued", 0, model.MessageQueued), message(other, "far", 1, model.MessageConsumed))
	all := []string{"said", "hidden", "queued", "tool", "call", "far", "nowhere", ""}
	want := map[string]bool{"said": true, "hidden": true, "queued": true, "tool": true, "call": true}
	equal(t, "Known", f.views(t, model.Ask{Thread: run.ThreadKey, IDs: all})[0].Known, nil, want)
	for _, id := range all {
		equal(t, id+" alone", f.views(t, model.Ask{Thread: run.ThreadKey, IDs: []string{id}})[0].Known[id], nil, want[id])
	}
	views := f.views(t, model.Ask{Thread: run.ThreadKey, IDs: all[:2]}, model.Ask{Thread: other.ThreadKey, IDs: all},
		model.Ask{IDs: all}, model.Ask{Thread: run.ThreadKey, IDs: all[2:]})
	equal(t, "Known to both", views[0].Known, nil, want)
	equal(t, "Known to the other", views[1].Known, nil, map[string]bool{"far": true})
	equal(t, "Known to a new one", views[2].Known, nil, map[string]bool{})
}

func testViewNames(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, queued := f.newRun(t, thread, "run", model.Completed), f.newRun(t, thread, "queued", model.Queued)
	bobs := f.newRun(t, f.newThread(t, "bob", "main"), "run", model.Running)
	span := func(n int, name string, first, last int64) *model.Span {
		return &model.Span{RunKey: run.Key, N: n, ThreadKey: thread.Key, RunID: name, First: first, Last: last}
	}
	f.put(t, &model.RunName{RunKey: run.Key, Project: "project", User: "ann", Name: "again", BodyHash: "hash"},
		span(1, "run", 1, 3), span(2, "again", 4, 6), span(3, "again", 7, 0))
	name := func(user, id string) model.Name { return model.Name{Project: "project", User: user, ID: id} }
	want := map[model.Name]model.NamedRun{
		name("ann", "run"):    {RunKey: run.Key, ThreadKey: thread.Key, ID: "run", Status: model.Completed, First: 1},
		name("ann", "again"):  {RunKey: run.Key, ThreadKey: thread.Key, ID: "run", BodyHash: "hash", Status: model.Completed, First: 4},
		name("ann", "queued"): {RunKey: queued.Key, ThreadKey: thread.Key, ID: "queued", Status: model.Queued},
		name("bob", "run"):    {RunKey: bobs.Key, ThreadKey: bobs.ThreadKey, ID: "run", Status: model.Running},
	}
	asks := []model.Ask{{RunName: name("ann", "nothing")}, {RunName: name("bob", "queued")}, {Thread: thread.Key, RunName: name("ann", "run")}}
	for n := range want {
		asks = append(asks, model.Ask{RunName: n})
	}
	for i, v := range f.views(t, asks...) {
		equal(t, fmt.Sprint("view ", i), v.Names, nil, want)
	}
	for i, a := range asks {
		names := f.views(t, a)[0].Names
		if i < 2 {
			equal(t, "no name", len(names), nil, 0)
		} else {
			equal(t, a.RunName.ID, names, nil, map[model.Name]model.NamedRun{a.RunName: want[a.RunName]})
		}
	}
}

func testViewRemembered(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", model.Running)
	put := func(scope string, r model.Remembered) model.Remembered {
		f.put(t, &model.IdempotencyKey{
			Scope: scope, BodyHash: r.BodyHash, RunKey: r.RunKey, Answer: r.Answer, CreatedAt: r.CreatedAt,
		})
		return r
	}
	put("run", model.Remembered{BodyHash: "other", CreatedAt: at(1)})
	want := map[string]model.Remembered{
		"run":    put("run", model.Remembered{BodyHash: "hash", RunKey: run.Key, Answer: object("a"), CreatedAt: at(2)}),
		"gone":   put("gone", model.Remembered{RunKey: 999, CreatedAt: at(3)}),
		"no run": put("no run", model.Remembered{CreatedAt: at(4)}),
	}
	gone := want["gone"]
	gone.RunGone = true
	want["gone"] = gone
	views := f.views(t, model.Ask{Scope: "run"}, model.Ask{Scope: "gone", Thread: run.ThreadKey}, model.Ask{Scope: "no run"}, model.Ask{Scope: "none"})
	for i, v := range views {
		equal(t, fmt.Sprint("view ", i), v.Remembered, nil, want)
	}
	for scope := range want {
		equal(t, scope, f.views(t, model.Ask{Scope: scope})[0].Remembered, nil, map[string]model.Remembered{scope: want[scope]})
	}
}

// Decisions about a thread share its view, by key or by name, and also when one of them creates the thread.
func testViewShared(t *testing.T, f *fixture) {
	old := f.newThread(t, "ann", "old")
	created, unnamed := f.threadOf(t, "ann", "created"), f.threadOf(t, "ann", "unnamed")
	asks := []model.Ask{
		{Thread: old.Key},
		{Name: nameOf(old)},
		{Name: nameOf(created)},
		{Thread: created.Key},
		{Name: nameOf(created)},
		{},
		{Name: nameOf(unnamed)},
		{Thread: unnamed.Key},
	}
	var views []*model.View
	err := f.try(t.Context(), &model.Batch{Asks: asks, Decide: func(i int, v *model.View) model.Changes {
		views = append(views, v)
		thread := map[int]*model.Thread{2: created, 5: unnamed}[i]
		if thread == nil {
			return model.Changes{}
		}
		v.Exists, v.Thread = true, thread.ThreadHead
		return model.Changes{Rows: []model.Row{thread}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, first := range []int{0, 0, 2, 2, 2, 5, 5, 5} {
		if views[i] != views[first] {
			t.Errorf("decision %d does not see what decision %d does", i, first)
		}
	}
	if views[0] == views[2] || views[2] == views[5] {
		t.Error("decisions about different threads share a view")
	}
	got, err := f.ThreadByID(t.Context(), "project", "ann", "unnamed")
	equal(t, "the thread", got, err, *unnamed)
}

func testViewAfterRows(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", model.Running)
	waiting := run.RunHead
	waiting.Status = model.Waiting
	err := f.try(t.Context(), &model.Batch{
		Rows: []model.Row{
			message(run, "m", 0, model.MessageQueued), &waiting,
			&model.Interrupt{RunKey: run.Key, ID: "i", Status: model.InterruptOpen, CreatedAt: at(0)},
		},
		Asks: []model.Ask{{Thread: run.ThreadKey, IDs: []string{"m"}}},
		Decide: func(_ int, v *model.View) model.Changes {
			if v.Runs[0].Status != model.Waiting || v.Inbox[run.Key].Messages != 1 || len(v.Asked) != 1 || !v.Known["m"] {
				t.Errorf("the decision sees %+v", v)
			}
			return model.Changes{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testManyDecisions makes decisions about many threads, old and new, in one batch. Later ones depend on earlier ones.
func testManyDecisions(t *testing.T, f *fixture) {
	const n = 70
	var asks []model.Ask
	var threads []*model.Thread
	runs := make(map[int]*model.Run)
	for i := range n {
		thread := f.threadOf(t, "ann", fmt.Sprint(i))
		if i%2 == 0 {
			f.put(t, thread)
		}
		threads = append(threads, thread)
	}
	for i := range 3 * n {
		asks = append(asks, model.Ask{Name: nameOf(threads[i%n]), RunName: model.Name{Project: "project", User: "ann", ID: fmt.Sprint("run ", i)}})
		runs[i] = f.runOf(t, threads[i%n], fmt.Sprint("run ", i), model.Queued)
	}
	err := f.try(t.Context(), &model.Batch{Asks: asks, Decide: func(i int, v *model.View) (c model.Changes) {
		if v.Exists != (i%n%2 == 0 || i >= n) || len(v.Runs) != i/n {
			t.Errorf("decision %d sees a thread: %v, with %d runs", i, v.Exists, len(v.Runs))
		}
		if !v.Exists {
			v.Exists, v.Thread = true, threads[i%n].ThreadHead
			c.Rows = append(c.Rows, threads[i%n])
		}
		run := runs[i]
		run.Turn = int64(i)
		v.Runs = append(v.Runs, run.RunHead)
		v.Thread.LastSeq++
		head := v.Thread
		c.Rows = append(c.Rows, run, named(run), &head, message(run, fmt.Sprint("m", i), head.LastSeq, model.MessageConsumed))
		c.Events = events(run, int64(i/n+1), int64(i/n+1))
		return c
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, thread := range threads {
		got, err := f.Thread(t.Context(), thread.Key)
		equal(t, "LastSeq", got.LastSeq, err, 3)
		open, err := f.OpenRuns(t.Context(), thread.Key)
		equal(t, "OpenRuns", headKeys(open), err, []int64{runs[i].Key, runs[i+n].Key, runs[i+2*n].Key})
		messages, err := f.Messages(t.Context(), thread.Key, 0, 10)
		equal(t, "Messages", len(messages), err, 3)
		list, err := f.Events(t.Context(), thread.Key, 0, 10)
		equal(t, "events", len(list), err, 3)
	}
}
