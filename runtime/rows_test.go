package runtime_test

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/fold"
)

// rich is an agent that uses every feature of an agent except questions, with the plugins it needs.
func rich() []plugins.Plugin {
	add := tool{plugins.Info{Name: "add"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "3"}, nil
	}}
	sub := answering("sub", func(q string) string { return "sub of " + q })
	rich := agent{"rich", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		why := run.Reason()
		if _, err := io.WriteString(why, "because"); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := why.Close(); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := say(run, "let me ", "add"); err != nil {
			return agui.WorkerOutput{}, err
		}
		for _, name := range []string{"add", "nothing", "add"} {
			if _, err := run.CallTool(ctx, name, map[string]any{"n": 1}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		if err := run.Emit(agui.ActivitySnapshot{MessageID: "plan of " + run.Input.Query, ActivityType: "plan", Content: []byte(`{"steps":1}`)}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if _, err := run.CallAgent(ctx, "sub", "it"); err != nil {
			return agui.WorkerOutput{}, err
		}
		if err := run.State(map[string]any{"asked": run.Input.Query}); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{KeyPoints: []string{"done"}}, say(run, "it is 3")
	}}
	return []plugins.Plugin{add, sub, rich}
}

// checkRows compares the rows of the thread main with the fold of its log.
func checkRows(t *testing.T, b *bench) {
	t.Helper()
	folded := fold.New(nil, nil)
	for _, r := range b.log("main") {
		if _, err := folded.Apply(r.Event); err != nil {
			t.Fatalf("record %d: %v", r.ID, err)
		}
	}
	th := b.found("main")
	rows, err := b.store.Messages(context.Background(), th.Key, 0, 1000)
	must(t, err)
	byID := make(map[string]agui.Message, len(rows))
	for i := range rows {
		if rows[i].Seq != int64(i+1) {
			t.Errorf("row %d has seq %d", i+1, rows[i].Seq)
		}
		byID[rows[i].ID] = rows[i].Message
	}
	want := folded.Messages()
	if len(rows) != len(want) {
		t.Errorf("%d rows, the log has %d messages", len(rows), len(want))
	}
	for i, m := range want {
		if i < len(rows) && rows[i].ID != m.ID {
			t.Errorf("row %d is %s, the log has %s there", i+1, rows[i].ID, m.ID)
		}
		if diff := cmp.Diff(m, byID[m.ID]); diff != "" {
			t.Errorf("message %s (-log +row):\n%s", m.ID, diff)
		}
	}
	if diff := cmp.Diff(string(folded.State()), string(th.State)); diff != "" {
		t.Errorf("state (-log +row):\n%s", diff)
	}
}
