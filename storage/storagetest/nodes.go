package storagetest

import (
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/model"
)

// testNodesBesideSteps writes nodes that repeat their steps, and others, in every order: each node reads as it was last
// written.
func testNodesBesideSteps(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", model.Running)
	steps, nodes := make(map[int]model.Step), make(map[string]model.Node)
	write := func(what string, rows ...model.Row) {
		t.Helper()
		for _, row := range rows {
			switch row := row.(type) {
			case *model.Step:
				steps[row.Number] = *row
			case *model.Node:
				nodes[row.NodeID] = *row
			}
		}
		f.put(t, rows...)
		got, err := f.Nodes(t.Context(), run.Key)
		var want []model.Node
		for _, id := range []string{"a", "b"} {
			if n, ok := nodes[id]; ok {
				want = append(want, n)
			}
		}
		equal(t, what+": nodes", got, err, want)
		states, err := f.NodeStates(t.Context(), run.Project, run.Key)
		for i := range want {
			want[i].Output = nil
		}
		equal(t, what+": states", states, err, want)
		list, err := f.Steps(t.Context(), run.Project, run.Key, 0, 10)
		equal(t, what+": steps", list.Total, err, len(steps))
		for _, s := range list.Rows {
			equal(t, what+": step", s, nil, steps[s.Number])
		}
	}
	begin, end := at(1), at(2)
	step := func(number int, id string, status model.Status) *model.Step {
		s := &model.Step{RunKey: run.Key, Number: number, ID: "s", NodeID: id, Name: id, Status: status, StartedAt: begin}
		if status.Final() {
			s.CompletedAt = &end
		}
		return s
	}
	node := func(id string, status model.Status) *model.Node {
		n := &model.Node{RunKey: run.Key, NodeID: id, Status: status, StartedAt: &begin}
		if status.Final() {
			n.CompletedAt = &end
		}
		return n
	}
	answered := func(number int, id, answer string, out agui.WorkerOutput) []model.Row {
		s, n := step(number, id, model.Completed), node(id, model.Completed)
		s.Output, n.Progress = &answer, 1
		var err error
		if n.Output, err = json.Marshal(out); err != nil {
			t.Fatal(err)
		}
		return []model.Row{s, n}
	}
	plain := func(answer string) agui.WorkerOutput {
		return agui.WorkerOutput{Status: agui.StatusSuccess, Answer: answer}
	}

	write("begun", step(1, "a", model.Running), node("a", model.Running))
	further := node("a", model.Running)
	further.Progress, further.Messages = 0.5, []string{"half"}
	write("progress", further)
	write("begun again", step(1, "a", model.Running), node("a", model.Running))
	write("a step alone", step(1, "a", model.Waiting))
	write("answered", answered(1, "a", "<that> & \"ü\" \u2028\n", plain("<that> & \"ü\" \u2028\n"))...)
	write("another begins", step(2, "b", model.Running), node("b", model.Running))
	write("says more", answered(2, "b", "that", agui.WorkerOutput{Status: agui.StatusSuccess, Answer: "that", KeyPoints: []string{"x"}})...)
	write("anew", &model.Node{RunKey: run.Key, NodeID: "a", Status: model.Pending})
	write("second execution", step(3, "a", model.Running), node("a", model.Running))
	write("third, of a node that a step tells", step(4, "a", model.Running), node("a", model.Running))
	write("it alone", step(4, "a", model.Failed))
	write("cut answer", answered(4, "a", "short", plain("longer"))...)
	failed := &agui.OutputError{Code: "c", Message: "m"}
	s, n := step(5, "a", model.Failed), node("a", model.Failed)
	s.Error, n.Error = failed, failed
	write("failed", s, n)
	write("both at once", step(6, "a", model.Running), node("a", model.Running), step(7, "b", model.Running), node("b", model.Pending))
	write("one again", step(7, "b", model.Running), node("b", model.Running))
}
