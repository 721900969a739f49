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

// life is a run with its only step, as they are now.
type life struct {
	run  data.Run
	step data.Step
	node data.Node
}

// ends ends the run and its step in one way, and returns the rows: two of the run, two of the step.
func (l *life) ends(status data.Status, answer *string, err *agui.OutputError) []data.Row {
	l.run.Status, l.run.FinishedAt, l.run.Error = status, new(at(3)), err
	l.step.Status, l.step.CompletedAt, l.step.Error = status, new(at(2)), err
	l.node.Status, l.node.CompletedAt, l.node.Error = status, new(at(2)), err
	if status == data.Completed {
		l.node.Progress, l.step.Output = 1, answer
	}
	if answer != nil {
		l.node.Output, _ = json.Marshal(agui.WorkerOutput{Status: agui.StatusSuccess, Answer: *answer})
	}
	return []data.Row{&l.run.RunHead, &data.RunResult{Key: l.run.Key, OutputSummary: answer}, &l.step, &l.node}
}

// testStepsBesideRuns begins and ends runs together with their only steps, and lets either go on without the other: each step and node
// reads as it was last written.
func testStepsBesideRuns(t *testing.T, f *fixture) {
	completes := func(l *life) []data.Row { return l.ends(data.Completed, new("<that> & more"), nil) }
	fails := func(l *life) []data.Row { return l.ends(data.Failed, nil, &agui.OutputError{Code: "c", Message: "m"}) }
	restarts := func(l *life) []data.Row {
		l.run.Status, l.run.Generation, l.run.Error = data.Queued, 2, nil
		return []data.Row{&l.run.RunHead}
	}
	result := func(l *life) []data.Row {
		return []data.Row{&data.RunResult{Key: l.run.Key, OutputSummary: new("another")}}
	}
	but := func(change func(*life)) func(l *life) []data.Row {
		return func(l *life) []data.Row {
			rows := completes(l)
			change(l)
			return rows
		}
	}
	type changes []func(l *life) []data.Row
	for name, list := range map[string]changes{
		"completes":              {completes},
		"completes in one batch": nil,
		"says nothing":           {func(l *life) []data.Row { return l.ends(data.Completed, nil, nil) }},
		"fails":                  {fails},
		"is cancelled":           {func(l *life) []data.Row { return l.ends(data.Cancelled, nil, nil) }},
		"restarts":               {completes, restarts},
		"restarts after failing": {fails, restarts},
		"is taken over": {func(l *life) []data.Row {
			l.run.Owner, l.run.Attempt = "another", 1
			return []data.Row{&l.run.RunHead}
		}, completes, restarts},
		"waits": {func(l *life) []data.Row {
			l.run.Status, l.step.Status, l.node.Status = data.Waiting, data.Waiting, data.Waiting
			return []data.Row{&l.run.RunHead, &l.step, &l.node}
		}, completes},
		"its step ends before": {func(l *life) []data.Row { return completes(l)[2:] }, func(l *life) []data.Row { return completes(l)[:2] }},
		"its step ends after":  {func(l *life) []data.Row { return completes(&life{run: l.run})[:2] }, func(l *life) []data.Row { return completes(l)[2:] }},
		"its step changes": {func(l *life) []data.Row {
			l.step.Status = data.Waiting
			return []data.Row{&l.step}
		}, completes},
		"its node changes": {func(l *life) []data.Row {
			l.node.Progress = 0.5
			return []data.Row{&l.node}
		}, completes},
		"its result comes before": {result, completes},
		"its result changes":      {completes, result},
		"its node says more": {but(func(l *life) {
			l.node.Output = json.RawMessage(`{"status":"success","answer":"<that> & more","key_points":["x"]}`)
		})},
		"another input":     {but(func(l *life) { l.step.Input = "else" })},
		"another id":        {but(func(l *life) { l.step.ID = "else" })},
		"another output":    {but(func(l *life) { l.step.Output = new("else") })},
		"another execution": {but(func(l *life) { l.step.Execution = 2 })},
		"another time": {but(func(l *life) {
			l.step.StartedAt = at(0)
			l.node.StartedAt = &l.step.StartedAt
		})},
	} {
		thread := f.newThread(t, "ann", name)
		l := &life{run: *f.runOf(t, thread, name, data.Running)}
		l.run.InputQuery = "go"
		l.step = data.Step{
			RunKey: l.run.Key, Number: 1, ID: "id", Generation: 1, NodeID: "echo", Name: "echo", Execution: 1, Status: data.Running, Input: "go", StartedAt: at(1),
		}
		l.node = data.Node{RunKey: l.run.Key, NodeID: "echo", Status: data.Running, StartedAt: new(at(1))}
		check := func() {
			t.Helper()
			steps, err := f.Steps(t.Context(), l.run.Project, l.run.Key, 0, 10)
			equal(t, name+": steps", steps, err, data.Page[data.Step]{Rows: []data.Step{l.step}, Total: 1, Counted: true})
			steps, err = f.Steps(t.Context(), l.run.Project, l.run.Key, 1, 10)
			equal(t, name+": steps behind", []int{len(steps.Rows), steps.Total}, err, []int{0, 1})
			steps, err = f.Steps(t.Context(), "another", l.run.Key, 0, 10)
			equal(t, name+": steps in another project", []int{len(steps.Rows), steps.Total}, err, []int{0, 0})
			nodes, err := f.Nodes(t.Context(), l.run.Key)
			equal(t, name+": nodes", nodes, err, []data.Node{l.node})
			state := l.node
			state.Output = nil
			nodes, err = f.NodeStates(t.Context(), l.run.Project, l.run.Key)
			equal(t, name+": states", nodes, err, []data.Node{state})
		}
		rows := []data.Row{new(l.run), named(&l.run), new(l.step), new(l.node)}
		if list == nil {
			rows = append(rows, completes(l)...)
		}
		f.put(t, rows...)
		check()
		for _, change := range list {
			f.put(t, change(l)...)
			check()
		}
	}
}
