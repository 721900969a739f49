package storagetest

import (
	"encoding/json"
	"testing"

	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// testNodesBesideSteps writes nodes that repeat their steps, and others, in every order: each node reads as it was last
// written.
func testNodesBesideSteps(t *testing.T, f *fixture) {
	run := f.newRun(t, f.newThread(t, "ann", "main"), "run", data.Running)
	steps, nodes := make(map[int]data.Step), make(map[string]data.Node)
	write := func(what string, rows ...data.Row) {
		t.Helper()
		for _, row := range rows {
			switch row := row.(type) {
			case *data.Step:
				steps[row.Number] = *row
			case *data.Node:
				nodes[row.NodeID] = *row
			}
		}
		f.put(t, rows...)
		got, err := f.Nodes(t.Context(), run.Key)
		var want []data.Node
		for _, id := range []string{"a", "b"} {
			if n, ok := nodes[id]; ok {
				want = append(want, n)
			}
		}
		equal(t, what+": nodes", got, err, want)
		states, err := f.ByProject().NodeStates(t.Context(), run.Project, run.Key)
		for i := range want {
			want[i].Output = nil
		}
		equal(t, what+": states", states, err, want)
		list, err := f.ByProject().Steps(t.Context(), run.Project, run.Key, "", 0, 10)
		equal(t, what+": steps", list.Total, err, len(steps))
		for _, s := range list.Rows {
			equal(t, what+": step", s, nil, steps[s.Number])
		}
	}
	begin, end := at(1), at(2)
	step := func(number int, id string, status data.Status) *data.Step {
		s := &data.Step{RunKey: run.Key, Number: number, ID: "s", NodeID: id, Name: id, Status: status, StartedAt: begin}
		if status.Final() {
			s.CompletedAt = &end
		}
		return s
	}
	node := func(id string, status data.Status) *data.Node {
		n := &data.Node{RunKey: run.Key, NodeID: id, Status: status, StartedAt: &begin}
		if status.Final() {
			n.CompletedAt = &end
		}
		return n
	}
	answered := func(number int, id, answer string, out agui.WorkerOutput) []data.Row {
		s, n := step(number, id, data.Completed), node(id, data.Completed)
		s.Output, n.Progress = &answer, 1
		var err error
		if n.Output, err = json.Marshal(out); err != nil {
			t.Fatal(err)
		}
		return []data.Row{s, n}
	}
	plain := func(answer string) agui.WorkerOutput {
		return agui.WorkerOutput{Status: agui.StatusSuccess, Answer: answer}
	}

	write("begun", step(1, "a", data.Running), node("a", data.Running))
	further := node("a", data.Running)
	further.Progress, further.Messages = 0.5, []string{"half"}
	write("progress", further)
	write("begun again", step(1, "a", data.Running), node("a", data.Running))
	write("a step alone", step(1, "a", data.Waiting))
	write("answered", answered(1, "a", "<that> & \"ü\" \u2028\n", plain("<that> & \"ü\" \u2028\n"))...)
	write("another begins", step(2, "b", data.Running), node("b", data.Running))
	write("says more", answered(2, "b", "that", agui.WorkerOutput{Status: agui.StatusSuccess, Answer: "that", KeyPoints: []string{"x"}})...)
	write("anew", &data.Node{RunKey: run.Key, NodeID: "a", Status: data.Pending})
	write("second execution", step(3, "a", data.Running), node("a", data.Running))
	write("third, of a node that a step tells", step(4, "a", data.Running), node("a", data.Running))
	write("it alone", step(4, "a", data.Failed))
	write("cut answer", answered(4, "a", "short", plain("longer"))...)
	failed := &agui.OutputError{Code: "c", Message: "m"}
	s, n := step(5, "a", data.Failed), node("a", data.Failed)
	s.Error, n.Error = failed, failed
	write("failed", s, n)
	write("both at once", step(6, "a", data.Running), node("a", data.Running), step(7, "b", data.Running), node("b", data.Pending))
	write("one again", step(7, "b", data.Running), node("b", data.Running))
}
