package plan_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
	"github.com/batonrun/baton/runtime/graph"
	"github.com/batonrun/baton/runtime/plan"
)

// begun returns a new generation of a run of the nodes a, b and c, where c needs a.
func begun(kept ...plan.Kept) (*plan.Plan, *data.Run, []data.Row) {
	g := &graph.Graph{Nodes: []*graph.Node{
		{Node: plugins.Node{ID: "a"}}, {Node: plugins.Node{ID: "b"}}, {Node: plugins.Node{ID: "c", Needs: []string{"a"}}},
	}}
	run := new(data.Run)
	run.Key, run.Generation = 7, 1
	p := plan.New(g)
	return p, run, p.Reset(run, 0, kept)
}

// enter begins and enters the next step of the node at an index.
func enter(p *plan.Plan, run *data.Run, node int) *data.Step {
	st := p.Begin(p.Graph.Nodes[node], run, "go")
	p.Enter(st)
	return st
}

// shown returns rows as words, in order.
func shown(rows []data.Row) string {
	var words []string
	for _, row := range rows {
		var e *agui.OutputError
		word := ""
		switch row := row.(type) {
		case *data.Node:
			word, e = fmt.Sprintf("node %s %s", row.NodeID, row.Status), row.Error
		case *data.Step:
			word, e = fmt.Sprintf("step %d of %s %s", row.Number, row.NodeID, row.Status), row.Error
		}
		if e != nil {
			word += " " + e.Code
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

func due(t *testing.T, p *plan.Plan) (ids string) {
	t.Helper()
	list, err := p.Due()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		ids += n.ID
	}
	return ids
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A round is a success. A retry keeps its round, and a process that has taken over counts on.
func TestPlan_CountsRounds(t *testing.T) {
	t.Parallel()
	p, run, _ := begun()
	p.Graph.Nodes[0].Repeat = plugins.Repeat{Until: "false"}
	at := func(st *data.Step) string { return fmt.Sprintf("%d.%d", st.Round, st.Execution) }
	st := enter(p, run, 0)
	p.Start(p.Graph.Nodes[0])
	check(t, "first", at(st), "1.1")
	p.Fail(st, &agui.OutputError{Code: "busy"}, true)
	st = enter(p, run, 0)
	check(t, "retry", at(st), "1.2")
	p.Complete(st, "one", []byte(`{"answer":"one"}`))
	p.Repeat(st)
	check(t, "rows of a node that goes on", shown(p.Rows(st)), "node a RUNNING, step 2 of a COMPLETED")
	check(t, "due behind a round", due(t, p), "ab")
	st = enter(p, run, 0)
	check(t, "second round", at(st), "2.1")
	p.Complete(st, "two", []byte(`{"answer":"two"}`))
	check(t, "due behind the last round", due(t, p), "bc")
}

// A node that catches its failure does not break the run, unless the failure is the run's.
func TestPlan_CatchesFailures(t *testing.T) {
	t.Parallel()
	p, run, _ := begun()
	p.Graph.Nodes[0].ContinueOnError = true
	p.Fail(enter(p, run, 0), &agui.OutputError{Code: "sick"}, false)
	check(t, "due behind a caught failure", due(t, p), "bc")
	check(t, "rows at the end", shown(p.Settle(data.Failed, &agui.OutputError{Code: "timeout"})), "node b SKIPPED, node c SKIPPED")
	if p.Broken() {
		t.Error("a caught failure breaks the run")
	}
	p.FailNode("a", &agui.OutputError{Code: "budget_exceeded"})
	if _, err := p.Due(); !p.Broken() || err == nil {
		t.Errorf("a budget that is used up is caught: %v", err)
	}
}

// Only the failed node carries its error; the others were stopped.
func TestPlan_SettlesTheSiblingsOfAFailedNode(t *testing.T) {
	t.Parallel()
	p, run, _ := begun()
	enter(p, run, 0)
	e := &agui.OutputError{Code: "sick"}
	failed := enter(p, run, 1)
	p.Fail(failed, e, false)
	check(t, "the failed node", shown(p.Rows(failed)), "node b FAILED sick, step 2 of b FAILED sick")
	check(t, "the others", shown(p.Settle(data.Failed, e)), "node a CANCELLED, node c SKIPPED, step 1 of a CANCELLED")
	if _, err := p.Due(); err == nil {
		t.Error("a run with a failed node goes on after a crash")
	}
}

func TestPlan_DueNodesHaveWhatTheyNeed(t *testing.T) {
	t.Parallel()
	p, run, _ := begun()
	check(t, "at first", due(t, p), "ab")
	p.Start(p.Graph.Nodes[0])
	st := enter(p, run, 0)
	check(t, "beside a node that this process has started", due(t, p), "b")
	p.Fail(st, &agui.OutputError{Code: "sick"}, true)
	if p.Open(p.Graph.Nodes[0]) != nil || p.Goes(st.Number) {
		t.Error("a failed step goes on")
	}
	if st = enter(p, run, 0); st.Execution != 2 || p.Open(p.Graph.Nodes[0]) != st {
		t.Errorf("the second execution is %+v", st)
	}
	p.Complete(st, "done", nil)
	p.Skip(p.Graph.Nodes[1])
	check(t, "in the end", due(t, p), "c")
}

// A rerun has the nodes that it keeps as its own, except for those that its workflow has no more.
func TestPlan_CountsKeptNodes(t *testing.T) {
	t.Parallel()
	kept := func(id string) plan.Kept {
		return plan.Kept{Node: data.Node{RunKey: 1, NodeID: id, Status: data.Completed}, Steps: []data.Step{{RunKey: 1, Number: 9, NodeID: id, Name: id, Status: data.Completed}}}
	}
	p, run, rows := begun(kept("gone"), kept("a"))
	check(t, "rows", shown(rows), "node a COMPLETED, node b PENDING, node c PENDING, step 1 of a COMPLETED")
	check(t, "due", due(t, p), "bc")
	if st := enter(p, run, 1); st.Number != 2 {
		t.Errorf("the next step has the number %d", st.Number)
	}
}

// A waiting node goes on once it has an answer, of its own or of the run, or nothing to wait for.
func TestPlan_ResumesAnsweredSteps(t *testing.T) {
	t.Parallel()
	question := func(step int, status string) data.Interrupt { return data.Interrupt{Step: step, Status: status} }
	for _, test := range []struct {
		asked []data.Interrupt
		want  string
	}{
		{[]data.Interrupt{question(1, data.InterruptOpen), question(2, data.InterruptOpen)}, ""},
		{[]data.Interrupt{question(1, data.InterruptOpen), question(1, data.InterruptAnswered), question(2, data.InterruptOpen)}, "a"},
		{[]data.Interrupt{question(1, data.InterruptOpen), question(2, data.InterruptCancelled)}, "b"},
		{[]data.Interrupt{question(0, data.InterruptAnswered), question(1, data.InterruptOpen), question(2, data.InterruptOpen)}, "ab"},
	} {
		p, run, _ := begun()
		p.Wait(enter(p, run, 0))
		p.Wait(enter(p, run, 1))
		check(t, "due while they wait", due(t, p), "")
		var got []string
		for _, st := range p.Resume(test.asked, func(int) bool { return false }) {
			got = append(got, st.NodeID)
		}
		slices.Sort(got)
		check(t, fmt.Sprint(test.asked), strings.Join(got, ""), test.want)
	}
}

func TestPlan_KeepsTheLatestMessages(t *testing.T) {
	t.Parallel()
	p, _, _ := begun()
	var row *data.Node
	for n := range 60 {
		row = p.Progress("a", fmt.Appendf(nil, `{"progress":%d,"message":"%d"}`, n, n)).(*data.Node)
	}
	if n := len(row.Messages); n != 50 || row.Messages[n-1] != "59" || row.Progress != 1 {
		t.Errorf("%d messages until %s, progress %v", n, row.Messages[n-1], row.Progress)
	}
	if p.Progress("none", []byte(`{}`)) != nil || p.Progress("a", []byte(`[]`)) != nil {
		t.Error("progress of no node, or none, has a row")
	}
}

// stored are the rows of a run.
type stored struct {
	data.Reader
	node  data.Node
	steps []data.Step
}

func (s *stored) Nodes(context.Context, int64) ([]data.Node, error) { return []data.Node{s.node}, nil }

func (s *stored) ByProject() data.ByProject { return storedSteps{steps: s.steps} }

type storedSteps struct {
	data.ByProject
	steps []data.Step
}

func (s storedSteps) Steps(_ context.Context, _ string, _ int64, _ string, after, _ int) (data.Page[data.Step], error) {
	return data.Page[data.Step]{Rows: s.steps[min(after, len(s.steps)):]}, nil
}

// dueSteps returns the names of the steps that can begin.
func dueSteps(t *testing.T, p *plan.Plan) (names []string) {
	t.Helper()
	list, err := p.Due()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range list {
		names = append(names, n.StepName())
	}
	return names
}

// A failed map stays so when its other items end, wait or go on. A failure of the run is no item's, whatever the map does with those.
func TestPlan_AFailedMapStaysFailed(t *testing.T) {
	t.Parallel()
	for code, onError := range map[string]string{"sick": plugins.FailMap, "crash_loop": plugins.CollectErrors} {
		n := &graph.Node{Node: plugins.Node{ID: "m", Map: &plugins.Map{OnError: onError}}}
		run := new(data.Run)
		items := make([]graph.Item, 4)
		for i := range items {
			items[i].Item = data.Item{Index: i, Key: fmt.Sprint(i)}
		}
		p := plan.New(&graph.Graph{Nodes: []*graph.Node{n}})
		p.Reset(run, 0, nil)
		p.Unfold(n, run, items)
		var steps []*data.Step
		for i := range items[:3] {
			item := n.Of(&items[i])
			p.Start(item)
			steps = append(steps, p.Begin(item, run, "in"))
			p.Enter(steps[i])
		}
		p.Fail(steps[0], &agui.OutputError{Code: code}, false)
		p.Complete(steps[1], "done", []byte(`{"answer":"x"}`))
		p.Wait(steps[2])
		p.Go(steps[2])
		check(t, "after "+code, shown(p.Rows(steps[2])), "node m FAILED "+code+", step 3 of m RUNNING")
		if _, err := p.Due(); err == nil || !p.Over(n.Of(&items[0])) || !p.Broken() {
			t.Errorf("after %s the run goes on", code)
		}
	}
}

// A map has so many items at work as it may, the ones that have begun first. One that waits keeps its place.
func TestPlan_ItemsOfAMap(t *testing.T) {
	t.Parallel()
	n := &graph.Node{Node: plugins.Node{ID: "m", Map: &plugins.Map{Max: 2, OnError: plugins.CollectErrors}}}
	run := new(data.Run)
	run.Key, run.Generation = 7, 1
	var items []graph.Item
	for i := range 4 {
		items = append(items, graph.Item{Item: data.Item{Index: i, Key: fmt.Sprint("k", i)}, Input: "in"})
	}
	items[0].Error = &agui.OutputError{Code: "bad_input"}
	p := plan.New(&graph.Graph{Nodes: []*graph.Node{n}})
	p.Reset(run, 0, nil)
	check(t, "before it begins", strings.Join(dueSteps(t, p), " "), "m")
	p.Start(n)
	records := p.Unfold(n, run, items)
	check(t, "at first", strings.Join(dueSteps(t, p), " "), "m[1] m[2]")
	step := func(i int) *data.Step {
		item := n.Of(&items[i])
		p.Start(item)
		st := p.Begin(item, run, "in")
		p.Enter(st)
		return st
	}
	one, two := step(1), step(2)
	p.Wait(one)
	check(t, "one waits", shown(p.Rows(one)), "node m RUNNING, step 1 of m WAITING")
	p.Complete(two, "done", []byte(`{"answer":"two"}`))
	check(t, "beside it", strings.Join(dueSteps(t, p), " "), "m[3]")
	check(t, "the others wait", shown(p.Rows(two)[:2]), "node m WAITING, step 2 of m COMPLETED")
	records = append(records, p.Rows(two)...)

	load := func() *plan.Plan {
		t.Helper()
		again := plan.New(p.Graph)
		var memos []data.Memo
		for _, row := range records {
			if m, ok := row.(*data.Memo); ok {
				memos = append(memos, *m)
			}
		}
		if err := again.Load(t.Context(), &stored{node: *records[0].(*data.Node), steps: []data.Step{*one, *two}}, run, memos); err != nil {
			t.Fatal(err)
		}
		return again
	}
	check(t, "after a crash", strings.Join(dueSteps(t, load()), " "), "m[3]")
	p.Go(one)
	check(t, "after a crash of one at work", strings.Join(dueSteps(t, load()), " "), "m[1] m[3]")

	three := step(3)
	p.Fail(three, &agui.OutputError{Code: "sick", Retryable: true}, true)
	if e := p.Rows(three); len(e) != 2 {
		t.Errorf("a failure that is tried again is recorded as %v", e)
	}
	p.Fail(three, &agui.OutputError{Code: "sick", Message: "ill"}, false)
	p.Complete(one, "done", []byte(`{"answer":"one","result":{"x":1}}`))
	node := p.Rows(one)[1].(*data.Node)
	check(t, "the output", string(node.Output), `{"status":"partial_success","answer":"one\n\ntwo","result":[null,{"x":1},{"answer":"two"},null],`+
		`"errors":[{"index":0,"key":"k0","code":"bad_input","message":""},{"index":3,"key":"k3","code":"sick","message":"ill"}]}`)
	check(t, "the counts", fmt.Sprint(*node.Map, " ", node.Status, " ", node.Progress), "{4 2 2} COMPLETED 1")
}
