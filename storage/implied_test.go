package storage

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/batonrun/baton/runtime/data"
)

// A run that says what its only step says has no rows of the step and its node.
func TestImpliedStep_HasNoRows(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db, err := Open(ctx, Config{URL: "sqlite:" + filepath.Join(t.TempDir(), "baton.db"), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Join(ctx, "instance", ""); err != nil {
		t.Fatal(err)
	}
	begin, end := time.UnixMilli(1), time.UnixMilli(2)
	run := data.RunHead{Key: 1, ThreadKey: 1, Agent: "echo", Generation: 1, Status: data.Running}
	step := data.Step{RunKey: 1, Number: 1, ID: "id", Generation: 1, NodeID: "echo", Name: "echo", Execution: 1, Status: data.Running, Input: "go", StartedAt: begin}
	node := data.Node{RunKey: 1, NodeID: "echo", Status: data.Running, StartedAt: &begin}
	begins := []data.Row{&data.Thread{ThreadHead: data.ThreadHead{Key: 1}}, &data.Run{RunHead: run, InputQuery: "go"}, new(step), new(node)}
	run.Status, step.Status, node.Status, node.Progress = data.Completed, data.Completed, data.Completed, 1
	run.FinishedAt, step.CompletedAt, node.CompletedAt = &end, &end, &end
	step.Output, node.Output = new("yes"), toldOutput(&data.Step{Status: data.Completed, Output: new("yes")})
	restarted := run
	restarted.Status, restarted.Generation = data.Queued, 2
	for i, commit := range []struct {
		rows []data.Row
		want int
	}{
		{begins, 0},
		{[]data.Row{&run, &data.RunResult{Key: 1, OutputSummary: new("yes")}, &step, &node}, 0},
		{[]data.Row{&restarted}, 1},
	} {
		if err := db.Commit(ctx, int64(i+1), &data.Batch{Rows: commit.rows}); err != nil {
			t.Fatal(err)
		}
		n, err := one(ctx, db.read, scalar[int], "SELECT (SELECT count(*) FROM steps) + (SELECT count(*) FROM node_states)")
		if n != commit.want || err != nil {
			t.Errorf("after commit %d: %d rows, %v, want %d", i+1, n, err, commit.want)
		}
	}
}
