package storagetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/runtime/data"
)

// claim returns a row of the queue. It needs no thread and no run.
func claim(thread int64, project, user, workflow, agent string, since int) *data.Place {
	return &data.Place{
		ThreadKey: thread, Todo: data.ToClaim, RunKey: 1000 + thread, Project: project, User: user, Workflow: workflow, Agent: agent, Since: at(since),
	}
}

func answered(p *data.Place) *data.Place {
	p.Answered = true
	return p
}

func toWake(p *data.Place) *data.Place {
	p.Todo = data.ToWake
	return p
}

func toCancel(p *data.Place) *data.Place {
	p.Todo = data.ToCancel
	return p
}

// line reads rows of the queue in pages of several sizes.
func (f *fixture) line(t *testing.T, what string, after data.Place, each data.Each, want []*data.Place) {
	t.Helper()
	var all []data.Place
	for _, p := range want {
		all = append(all, *p)
	}
	for _, limit := range []int{1, 2, 100} {
		var got []data.Place
		for next := after; ; next = got[len(got)-1] {
			page, err := f.Queue().Line(t.Context(), next, each, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%s by %d: %d rows, %v", what, limit, len(page), err)
			}
			if got = append(got, page...); len(page) < limit {
				break
			}
		}
		equal(t, fmt.Sprintf("%s by %d", what, limit), got, nil, all)
	}
}

func testTake(t *testing.T, f *fixture) {
	f.put(t, claim(1, "p", "ann", "echo", "echo", 1), claim(2, "p", "ann", "echo", "echo", 2), toCancel(claim(3, "p", "ann", "echo", "echo", 3)))
	rows := func(what string, want ...int64) {
		t.Helper()
		got := []int64{}
		list, err := f.Queue().Line(t.Context(), data.Place{Project: "p", User: "ann", Workflow: "echo", Agent: "echo"}, data.EachRow, 10)
		for _, p := range list {
			got = append(got, p.ThreadKey)
		}
		equal(t, what, got, err, want)
	}
	take := func(hold time.Duration, want []int64, threads ...int64) {
		t.Helper()
		got, err := f.Queue().Take(t.Context(), threads, hold)
		slices.Sort(got)
		equal(t, fmt.Sprintf("Take %v for %v", threads, hold), got, err, want)
	}
	if !f.Shared() {
		take(data.MostHold, []int64{1, 2}, 1, 2)
		rows("all", 1, 2)
		return
	}
	take(data.MostHold, []int64{1}, 1, 3, 99)
	rows("the other", 2)
	take(data.MostHold, []int64{2}, 1, 2)
	rows("none", []int64{}...)
	lanes, err := f.Queue().Line(t.Context(), data.Place{Project: "p"}, data.EachLane, 10)
	equal(t, "lanes", len(lanes), err, 0)
	projects, err := f.Queue().Line(t.Context(), data.Place{}, data.EachProject, 10)
	equal(t, "projects", len(projects), err, 0)
	take(0, nil, 2)
	rows("what was given back", 2)
	take(time.Hour, []int64{2}, 2)
	rows("what was taken before the clock was set back", 2)
	take(data.MostHold, []int64{2}, 2)
	take(0, nil, 2)
	take(time.Millisecond, []int64{2}, 2)
	for range 1000 {
		if got, err := f.Queue().Take(t.Context(), []int64{2}, data.MostHold); err != nil || len(got) > 0 {
			return // its time is over
		}
		<-time.After(time.Millisecond)
	}
	t.Error("a row is never free again")
}

func testLine(t *testing.T, f *fixture) {
	// Names are in the order of their bytes, and rows neither in that of their threads nor in that of their times.
	lanes := [][]*data.Place{
		{claim(30, "B", "ann", "echo", "echo", 1)},
		{claim(31, "a", "Zoe", "echo", "", 7), claim(28, "a", "Zoe", "echo", "", 8)},
		{
			answered(claim(27, "a", "Zoe", "echo", "echo", 4)), answered(claim(26, "a", "Zoe", "echo", "echo", 9)),
			claim(21, "a", "Zoe", "echo", "echo", 3), claim(23, "a", "Zoe", "echo", "echo", 3), claim(20, "a", "Zoe", "echo", "echo", 5),
		},
		{claim(10, "a", "ann", "echo", "echo", 2)},
		{claim(9, "a", "ann", "later", "echo", 1)},
		{claim(32, "a", "é", "echo", "echo", 0)},
		{claim(8, "é", "ann", "echo", "echo", 6), claim(7, "é", "ann", "echo", "echo", 7)},
	}
	cancels := []*data.Place{
		toCancel(claim(5, "a", "Zoe", "echo", "echo", 1)), toCancel(claim(22, "a", "Aaron", "echo", "echo", 1)),
		answered(toCancel(claim(40, "C", "ann", "echo", "echo", 0))),
	}
	late := toWake(claim(60, "a", "ann", "echo", "echo", 0))
	late.Since = time.Now().Add(time.Hour)
	due := []*data.Place{toWake(claim(62, "B", "ann", "echo", "echo", 1)), toWake(claim(63, "a", "ann", "echo", "echo", 1)), toWake(claim(61, "a", "bob", "echo", "echo", 2))}
	rows := []data.Row{late, claim(50, "A", "ann", "echo", "echo", 0), &data.Place{ThreadKey: 50}} // which leaves again
	for _, p := range slices.Backward(slices.Concat(append(lanes, cancels, due)...)) {
		rows = append(rows, p)
	}
	f.put(t, rows...)

	var projects, heads []*data.Place
	for i, lane := range lanes {
		if i == 0 || lane[0].Project != lanes[i-1][0].Project {
			projects = append(projects, lane[0])
		}
		if lane[0].Project == "a" {
			heads = append(heads, lane[0])
		}
	}
	line := func(what string, after data.Place, each data.Each, want ...*data.Place) {
		t.Helper()
		f.line(t, what, after, each, want)
	}
	line("projects", data.Place{}, data.EachProject, projects...)
	line("projects behind one without rows", data.Place{Project: "C"}, data.EachProject, projects[1:]...)
	line("lanes", data.Place{Project: "a"}, data.EachLane, heads...)
	line("lanes behind a place in one", *lanes[2][3], data.EachLane, heads[2:]...)
	line("lanes behind one without rows", data.Place{Project: "a", User: "ann", Workflow: "echo", Agent: "f"}, data.EachLane, heads[3:]...)
	line("lanes of a project with cancels", data.Place{Project: "C"}, data.EachLane)
	for i, lane := range lanes {
		begin := *lane[0]
		begin.ThreadKey = 0
		line(fmt.Sprint("rows of lane ", i), begin, data.EachRow, lane...)
	}
	line("rows behind an answered one", *lanes[2][1], data.EachRow, lanes[2][2:]...)
	line("rows behind one of the same time", *lanes[2][2], data.EachRow, lanes[2][3:]...)
	line("rows of no lane", data.Place{Project: "a", User: "Aaron", Workflow: "echo", Agent: "echo"}, data.EachRow)
	line("cancels", data.Place{}, data.EachCancel, cancels...)
	line("cancels behind a thread", data.Place{ThreadKey: 22}, data.EachCancel, cancels[2:]...)
	line("due", data.Place{}, data.EachDue, due...)
	line("due behind one", *due[0], data.EachDue, due[1:]...)
	for _, each := range []data.Each{data.EachProject, data.EachLane, data.EachRow, data.EachCancel, data.EachDue} {
		none, err := f.Queue().Line(t.Context(), data.Place{Project: "a"}, each, 0)
		equal(t, "none", len(none), err, 0)
	}

	lanes[2][2].Todo, lanes[2][3].ThreadKey = data.ToCancel, 23
	f.put(t, lanes[2][2], &data.Place{ThreadKey: 27}, &data.Place{ThreadKey: 10})
	line("rows behind one that has left", *lanes[2][0], data.EachRow, lanes[2][1], lanes[2][3], lanes[2][4])
	line("lanes when heads have left", data.Place{Project: "a"}, data.EachLane, lanes[1][0], lanes[2][1], lanes[4][0], lanes[5][0])
	line("cancels with another", data.Place{}, data.EachCancel, cancels[0], lanes[2][2], cancels[1], cancels[2])
	head := lanes[1][0].Head()
	equal(t, "head", head, nil, data.RunHead{
		Key: 1031, ThreadKey: 31, Project: "a", User: "Zoe", WorkflowID: "echo", Status: data.Queued, QueuedAt: at(7),
	})
}

func testPosition(t *testing.T, f *fixture) {
	rows := []data.Row{
		claim(1, "p", "ann", "late", "late", 2), claim(2, "p", "ann", "early", "", 1), claim(3, "p", "ann", "early", "", 2),
		answered(claim(4, "p", "ann", "late", "late", 9)), toCancel(claim(5, "p", "ann", "early", "", 0)),
		claim(6, "p", "bob", "early", "", 0), claim(7, "other", "ann", "early", "", 0),
	}
	f.put(t, rows...)
	for i, want := range []int{3, 2, 4, 1, 0, 1, 1} {
		p, at, err := f.Queue().Position(t.Context(), int64(i+1))
		equal(t, fmt.Sprint("position of ", i+1), at, err, want)
		if diff := cmp.Diff(rows[i], data.Row(&p)); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i+1, diff)
		}
	}
	if _, _, err := f.Queue().Position(t.Context(), 8); !errors.Is(err, data.ErrNotFound) {
		t.Errorf("Position without a row: %v, want ErrNotFound", err)
	}
	rows = nil
	for i := range int64(1003) {
		rows = append(rows, claim(100+i, "p", "many", "early", "", 0))
	}
	f.put(t, rows...)
	for i, want := range map[int64]int{998: 999, 999: 1000, 1002: 1000} {
		_, at, err := f.Queue().Position(t.Context(), 100+i)
		equal(t, fmt.Sprint("position behind ", i), at, err, want)
	}
}

func testBacklog(t *testing.T, f *fixture) {
	backlog := func(what string, want data.Backlog) {
		t.Helper()
		got, err := f.Queue().Backlog(t.Context())
		equal(t, what, got, err, want)
	}
	backlog("of nothing", data.Backlog{})
	thread := f.newThread(t, "ann", "main")
	f.newRun(t, thread, "waiting", data.Waiting)
	f.newRun(t, thread, "queued", data.Queued)
	f.newRun(t, f.newThread(t, "bob", "other"), "waits, too", data.Waiting)
	f.newRun(t, f.newThread(t, "bob", "running"), "running", data.Running)
	parked := f.newRun(t, f.newThread(t, "bob", "parked"), "parked", data.Waiting)
	parked.Owner = data.ReleasedBy("x", 1, 0)
	f.put(t, &parked.RunHead, toCancel(claim(thread.Key, "project", "ann", "echo", "echo", 0)))
	backlog("without claims", data.Backlog{Waiting: 2, Parked: 1})
	f.put(t, claim(101, "project", "ann", "echo", "echo", 7), claim(102, "a", "bob", "echo", "echo", 5), answered(claim(103, "b", "ann", "echo", "echo", 9)))
	backlog("with claims", data.Backlog{Waiting: 2, Parked: 1, Oldest: at(5)})
}
