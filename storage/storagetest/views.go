package storagetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

func nameOf(thread *data.Thread) data.Name {
	return data.Name{Project: thread.Project, User: thread.User, ID: thread.ID}
}

func testViewThread(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "bob", "main")
	nobody := data.Name{Project: "project", User: "nobody", ID: "main"}
	asks := []data.Ask{
		{Thread: thread.Key}, {Name: nameOf(other)}, {Thread: other.Key}, {Name: nobody}, {Thread: 999}, {}, {Name: nobody}, {},
	}
	for n := 1; n <= len(asks); n++ { // also alone
		views := f.views(t, asks[:n]...)
		for i, v := range views {
			want := []*data.Thread{thread, other, other, nil, nil, nil, nil, nil}[i]
			if v.Exists != (want != nil) {
				t.Errorf("view %d exists: %v", i, v.Exists)
			}
			if want != nil {
				equal(t, fmt.Sprint("view ", i), v.Thread, nil, want.ThreadHead)
			} else {
				equal(t, fmt.Sprint("view ", i), v.Thread, nil, data.ThreadHead{})
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
	over, last := f.newRun(t, thread, "over", data.Completed), f.newRun(t, thread, "last", data.Failed)
	queued, active := f.newRun(t, thread, "queued", data.Queued), f.newRun(t, thread, "active", data.Running)
	elsewhere := f.newRun(t, other, "elsewhere", data.Completed)
	alone := f.newRun(t, other, "alone", data.Running)
	heads := func(runs ...*data.Run) (list []data.RunHead) {
		for _, run := range runs {
			list = append(list, run.RunHead)
		}
		return list
	}
	for _, test := range []struct {
		ask  data.Ask
		want []data.RunHead
	}{
		{data.Ask{Thread: thread.Key}, heads(active, queued)},
		{data.Ask{Name: nameOf(thread), Runs: []int64{last.Key}}, heads(active, queued, last)},
		{data.Ask{Thread: thread.Key, Runs: []int64{last.Key, active.Key, over.Key, last.Key}}, heads(active, queued, over, last)},
		{data.Ask{Thread: thread.Key, Runs: []int64{elsewhere.Key, 999}}, heads(active, queued)},
		{data.Ask{Thread: other.Key}, heads(alone)},
	} {
		v := f.views(t, test.ask)[0]
		equal(t, fmt.Sprintf("%+v", test.ask), v.Runs, nil, test.want)
		for i := range test.want {
			if got := v.Run(test.want[i].Key); got != &v.Runs[i] {
				t.Errorf("Run(%d) is %+v", test.want[i].Key, got)
			}
		}
	}
	views := f.views(t, data.Ask{Thread: other.Key}, data.Ask{Thread: thread.Key, Runs: []int64{over.Key}}, data.Ask{Name: nameOf(other), Runs: []int64{elsewhere.Key}})
	equal(t, "the first of three", views[0].Runs, nil, heads(alone, elsewhere))
	equal(t, "the second of three", views[1].Runs, nil, heads(active, queued, over))
}

func testViewInbox(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, next := f.newRun(t, thread, "run", data.Running), f.newRun(t, thread, "next", data.Queued)
	over := f.newRun(t, thread, "over", data.Completed)
	empty := f.newRun(t, f.newThread(t, "ann", "other"), "empty", data.Running)
	bytes := map[int64]int{}
	queue := func(run *data.Run, id string) {
		m := message(run, id, 0, data.MessageQueued)
		m.Content = "ünï \U0001f600 " + id
		bytes[run.Key] += len(m.AppendJSON(nil, agui.Stored))
		f.put(t, m)
	}
	queue(run, "a")
	queue(next, "b")
	queue(run, "c")
	queue(over, "d")
	f.put(t, message(run, "taken", 1, data.MessageConsumed), message(run, "hidden", 0, data.MessageHidden))
	last := func(run *data.Run) int64 {
		list, err := f.Queued(t.Context(), run.Key)
		if err != nil || len(list) == 0 {
			t.Fatalf("Queued: %d, %v", len(list), err)
		}
		return list[len(list)-1].Key
	}
	want := map[int64]data.Inbox{
		run.Key:  {Messages: 2, Bytes: bytes[run.Key], Last: last(run)},
		next.Key: {Messages: 1, Bytes: bytes[next.Key], Last: last(next)},
	}
	equal(t, "Inbox", f.views(t, data.Ask{Thread: thread.Key})[0].Inbox, nil, want)
	equal(t, "an empty one", f.views(t, data.Ask{Thread: empty.ThreadKey})[0].Inbox, nil, map[int64]data.Inbox{})
	want[over.Key] = data.Inbox{Messages: 1, Bytes: bytes[over.Key], Last: last(over)}
	views := f.views(t, data.Ask{Thread: empty.ThreadKey}, data.Ask{Thread: thread.Key, Runs: []int64{over.Key}})
	equal(t, "with that of a run that is over", views[1].Inbox, nil, want)
}

func testSignals(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, other := f.newRun(t, thread, "run", data.Running), f.newRun(t, thread, "other", data.Queued)
	signal := func(run *data.Run, n int64, name string) *data.Signal {
		return &data.Signal{RunKey: run.Key, N: n, Name: name, Payload: object(name), Bytes: len(object(name)), CreatedAt: at(int(n))}
	}
	all := []*data.Signal{signal(run, 1, "a"), signal(run, 2, "b"), signal(run, 3, "a"), signal(run, 4, "a"), signal(other, 1, "a")}
	for _, s := range all {
		f.put(t, s)
	}
	head := func(s *data.Signal) data.Signal { h := *s; h.Payload = nil; return h }
	sees := func(want map[int64][]data.Signal) {
		t.Helper()
		equal(t, "Signals", f.views(t, data.Ask{Thread: thread.Key})[0].Signals, nil, want)
	}
	run.Signals, other.Signals = 4, 1
	f.put(t, &run.RunHead, &other.RunHead)
	sees(map[int64][]data.Signal{run.Key: {head(all[0]), head(all[1]), head(all[2]), head(all[3])}, other.Key: {head(all[4])}})
	for after, want := range map[int64]*data.Signal{0: all[0], 1: all[2], 3: all[3]} {
		got, err := f.Queue().Signal(t.Context(), run.Key, "a", after)
		equal(t, "Signal", got, err, *want)
	}
	if _, err := f.Queue().Signal(t.Context(), run.Key, "b", 2); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("the signal behind the last is %v", err)
	}
	f.put(t, signal(run, 5, "c"), &data.TakenSignals{RunKey: run.Key, From: 2, To: 2}, &data.TakenSignals{RunKey: run.Key, From: 4, To: 5})
	sees(map[int64][]data.Signal{run.Key: {head(all[0]), head(all[2])}, other.Key: {head(all[4])}})
}

func testViewAsked(t *testing.T, f *fixture) {
	thread, other := f.newThread(t, "ann", "main"), f.newThread(t, "ann", "other")
	waiting := f.newRun(t, thread, "waiting", data.Waiting)
	answered := f.runOf(t, thread, "answered", data.Queued)
	answered.Answered = true
	f.put(t, answered)
	over := f.newRun(t, thread, "over", data.Completed)
	elsewhere := f.newRun(t, other, "elsewhere", data.Running)
	ask := func(run *data.Run, id string, created int, status string) data.Asked {
		a := data.Asked{RunKey: run.Key, ID: id, Step: 2, Place: "p " + id, Frontend: created%2 == 0, Status: status}
		f.put(t, &data.Interrupt{
			RunKey: run.Key, ID: id, Step: 2, Place: a.Place, Frontend: a.Frontend, Status: status, Body: object("b"),
			Payload: object("p"), CreatedAt: at(created),
		})
		return a
	}
	late := ask(waiting, "late", 9, data.InterruptOpen)
	first := ask(answered, "first", 1, data.InterruptAnswered)
	second := ask(waiting, "second", 2, data.InterruptResolved)
	second.Expired = true
	f.put(t, &data.Answer{RunKey: waiting.Key, Generation: 1, ID: "second", Step: 2, Place: second.Place, Output: object("o")})
	second.Status = data.InterruptAnswered
	old := ask(over, "old", 0, data.InterruptCancelled)
	ask(over, "older", 0, data.InterruptCancelled)
	far := ask(elsewhere, "old", 5, data.InterruptOpen)
	for _, test := range []struct {
		ask  data.Ask
		want []data.Asked
	}{
		{data.Ask{Thread: thread.Key}, []data.Asked{first, second, late}},
		{data.Ask{Thread: thread.Key, Interrupts: []string{"old", "second", "nowhere"}}, []data.Asked{old, first, second, late}},
		{data.Ask{Thread: other.Key}, nil},
		{data.Ask{Thread: other.Key, Interrupts: []string{"old"}}, []data.Asked{far}},
	} {
		equal(t, fmt.Sprintf("%+v", test.ask), f.views(t, test.ask)[0].Asked, nil, test.want)
		views := f.views(t, data.Ask{}, test.ask)
		equal(t, fmt.Sprintf("%+v, not alone", test.ask), views[1].Asked, nil, test.want)
	}
	views := f.views(t, data.Ask{Thread: thread.Key}, data.Ask{Thread: other.Key})
	equal(t, "of both", views[0].Asked, nil, []data.Asked{first, second, late})
}

func testViewKnown(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	other := f.newRun(t, f.newThread(t, "ann", "other"), "other", data.Running)
	tool := message(run, "tool", 2, data.MessageConsumed)
	tool.Role, tool.ToolCallID = agui.RoleTool, "call"
	f.put(t, tool, message(run, "said", 1, data.MessageConsumed), message(run, "hidden", 0, data.MessageHidden),
		message(run, "queued", 0, data.MessageQueued), message(other, "far", 1, data.MessageConsumed))
	all := []string{"said", "hidden", "queued", "tool", "call", "far", "nowhere", ""}
	want := map[string]bool{"said": true, "hidden": true, "queued": true, "tool": true, "call": true}
	equal(t, "Known", f.views(t, data.Ask{Thread: run.ThreadKey, IDs: all})[0].Known, nil, want)
	for _, id := range all {
		equal(t, id+" alone", f.views(t, data.Ask{Thread: run.ThreadKey, IDs: []string{id}})[0].Known[id], nil, want[id])
	}
	views := f.views(t, data.Ask{Thread: run.ThreadKey, IDs: all[:2]}, data.Ask{Thread: other.ThreadKey, IDs: all},
		data.Ask{IDs: all}, data.Ask{Thread: run.ThreadKey, IDs: all[2:]})
	equal(t, "Known to both", views[0].Known, nil, want)
	equal(t, "Known to the other", views[1].Known, nil, map[string]bool{"far": true})
	equal(t, "Known to a new one", views[2].Known, nil, map[string]bool{})
}

func testViewNames(t *testing.T, f *fixture) {
	thread := f.newThread(t, "ann", "main")
	run, queued := f.newRun(t, thread, "run", data.Completed), f.newRun(t, thread, "queued", data.Queued)
	bobs := f.newRun(t, f.newThread(t, "bob", "main"), "run", data.Running)
	span := func(n int, name string, first, last int64) *data.Span {
		return &data.Span{RunKey: run.Key, N: n, ThreadKey: thread.Key, RunID: name, First: first, Last: last}
	}
	f.put(t, &data.RunName{RunKey: run.Key, Project: "project", User: "ann", Name: "again", BodyHash: "hash"},
		span(1, "run", 1, 3), span(2, "again", 4, 6), span(3, "again", 7, 0))
	name := func(user, id string) data.Name { return data.Name{Project: "project", User: user, ID: id} }
	want := map[data.Name]data.NamedRun{
		name("ann", "run"):    {RunKey: run.Key, ThreadKey: thread.Key, ID: "run", Status: data.Completed, First: 1},
		name("ann", "again"):  {RunKey: run.Key, ThreadKey: thread.Key, ID: "run", BodyHash: "hash", Status: data.Completed, First: 4},
		name("ann", "queued"): {RunKey: queued.Key, ThreadKey: thread.Key, ID: "queued", Status: data.Queued},
		name("bob", "run"):    {RunKey: bobs.Key, ThreadKey: bobs.ThreadKey, ID: "run", Status: data.Running},
	}
	asks := []data.Ask{{RunName: name("ann", "nothing")}, {RunName: name("bob", "queued")}, {Thread: thread.Key, RunName: name("ann", "run")}}
	for n := range want {
		asks = append(asks, data.Ask{RunName: n})
	}
	for i, v := range f.views(t, asks...) {
		equal(t, fmt.Sprint("view ", i), v.Names, nil, want)
	}
	for i, a := range asks {
		names := f.views(t, a)[0].Names
		if i < 2 {
			equal(t, "no name", len(names), nil, 0)
		} else {
			equal(t, a.RunName.ID, names, nil, map[data.Name]data.NamedRun{a.RunName: want[a.RunName]})
		}
	}
}

func testViewRemembered(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	put := func(scope string, r data.Remembered) data.Remembered {
		f.put(t, &data.IdempotencyKey{
			Scope: scope, BodyHash: r.BodyHash, RunKey: r.RunKey, Answer: r.Answer, CreatedAt: r.CreatedAt, Replaces: scope == "run",
		})
		return r
	}
	put("run", data.Remembered{BodyHash: "other", CreatedAt: at(1)})
	want := map[string]data.Remembered{
		"run":    put("run", data.Remembered{BodyHash: "hash", RunKey: run.Key, Answer: object("a"), CreatedAt: at(2)}),
		"gone":   put("gone", data.Remembered{RunKey: 999, CreatedAt: at(3)}),
		"no run": put("no run", data.Remembered{CreatedAt: at(4)}),
	}
	gone := want["gone"]
	gone.RunGone = true
	want["gone"] = gone
	views := f.views(t, data.Ask{Scope: "run"}, data.Ask{Scope: "gone", Thread: run.ThreadKey}, data.Ask{Scope: "no run"}, data.Ask{Scope: "none"})
	for i, v := range views {
		equal(t, fmt.Sprint("view ", i), v.Remembered, nil, want)
	}
	for scope := range want {
		equal(t, scope, f.views(t, data.Ask{Scope: scope})[0].Remembered, nil, map[string]data.Remembered{scope: want[scope]})
	}
}

func testViewOwner(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	f.commit(t, events(run, 1, 3))
	f.commit(t, events(run, 4, 5), &data.ThreadHead{Key: f.newThread(t, "ann", "other").Key, LastEventID: 7, UpdatedAt: at(0)})
	other := run.ThreadKey + 1
	for _, test := range []struct {
		ask    data.Ask
		living bool
		last   int64
	}{
		{data.Ask{Thread: run.ThreadKey}, false, 0},
		{data.Ask{Thread: run.ThreadKey, Owner: "instance-1"}, true, 5},
		{data.Ask{Thread: run.ThreadKey, Owner: "nobody"}, false, 5},
		{data.Ask{Thread: other, Owner: "nobody"}, false, 7},
	} {
		v := f.views(t, test.ask)[0]
		if v.Living["instance-1"] != test.living || v.Living["nobody"] || v.Last != test.last {
			t.Errorf("%+v: got %v, %d", test.ask, v.Living, v.Last)
		}
	}
	if err := errors.Join(f.Members().Fence(t.Context(), "instance-1"), f.Members().Join(t.Context(), "instance-2", "")); err != nil {
		t.Fatal(err)
	}
	f.n = 0
	if v := f.views(t, data.Ask{Thread: run.ThreadKey, Owner: "instance-1"})[0]; v.Living["instance-1"] || v.Last != 5 {
		t.Errorf("after the fence: %v, %d", v.Living, v.Last)
	}
}

// Decisions about a thread share its view, by key or by name, and also when one of them creates the thread.
func testViewShared(t *testing.T, f *fixture) {
	old := f.newThread(t, "ann", "old")
	created, unnamed := f.threadOf(t, "ann", "created"), f.threadOf(t, "ann", "unnamed")
	asks := []data.Ask{
		{Thread: old.Key},
		{Name: nameOf(old)},
		{Name: nameOf(created)},
		{Thread: created.Key},
		{Name: nameOf(created)},
		{},
		{Name: nameOf(unnamed)},
		{Thread: unnamed.Key},
	}
	var views []*data.View
	err := f.try(t.Context(), &data.Batch{Asks: asks, Decide: func(i int, v *data.View) data.Changes {
		views = append(views, v)
		thread := map[int]*data.Thread{2: created, 5: unnamed}[i]
		if thread == nil {
			return data.Changes{}
		}
		v.Exists, v.Thread = true, thread.ThreadHead
		return data.Changes{Rows: []data.Row{thread}}
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
	got, err := f.ByProject().ThreadByID(t.Context(), "project", "ann", "unnamed")
	equal(t, "the thread", got, err, *unnamed)
}

func testViewAfterRows(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	waiting := run.RunHead
	waiting.Status = data.Waiting
	err := f.try(t.Context(), &data.Batch{
		Rows: []data.Row{
			message(run, "m", 0, data.MessageQueued), &waiting,
			&data.Interrupt{RunKey: run.Key, ID: "i", Status: data.InterruptOpen, CreatedAt: at(0)},
		},
		Asks: []data.Ask{{Thread: run.ThreadKey, IDs: []string{"m"}}},
		Decide: func(_ int, v *data.View) data.Changes {
			if v.Runs[0].Status != data.Waiting || v.Inbox[run.Key].Messages != 1 || len(v.Asked) != 1 || !v.Known["m"] {
				t.Errorf("the decision sees %+v", v)
			}
			return data.Changes{}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// testManyDecisions makes decisions about many threads, old and new, in one batch. Later ones depend on earlier ones.
func testManyDecisions(t *testing.T, f *fixture) {
	const n = 70
	var asks []data.Ask
	var threads []*data.Thread
	runs := make(map[int]*data.Run)
	for i := range n {
		thread := f.threadOf(t, "ann", fmt.Sprint(i))
		if i%2 == 0 {
			f.put(t, thread)
		}
		threads = append(threads, thread)
	}
	for i := range 3 * n {
		asks = append(asks, data.Ask{Name: nameOf(threads[i%n]), RunName: data.Name{Project: "project", User: "ann", ID: fmt.Sprint("run ", i)}})
		runs[i] = f.runOf(t, threads[i%n], fmt.Sprint("run ", i), data.Queued)
	}
	err := f.try(t.Context(), &data.Batch{Asks: asks, Decide: func(i int, v *data.View) (c data.Changes) {
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
		c.Rows = append(c.Rows, run, named(run), &head, message(run, fmt.Sprint("m", i), head.LastSeq, data.MessageConsumed))
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
