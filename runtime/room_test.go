package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Runs that wait for room can be cancelled, rolled back, removed with their threads, and kept over a stop.
func TestRunsThatWaitForRoomCanEnd(t *testing.T) {
	t.Parallel()
	on, off := make(chan struct{}), make(chan struct{})
	close(on)
	quiet := agent{"quiet", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) { return agui.WorkerOutput{}, nil }}
	b := open(t, runtime.Config{Limits: runtime.Limits{RunsMessages: 12 << 20, Drain: 1, Grace: 1}}, saysAndAsks("asker", 1<<20, on), saysAndAsks("holder", 1<<20, off), quiet)
	holder := b.start("held", "holder", "x").RunID
	b.wait(holder, runtime.Waiting)
	var ids []string
	for i := range 4 {
		ids = append(ids, b.start(fmt.Sprint("t", i), "asker", "x").RunID)
		b.wait(ids[i], runtime.Waiting)
	}
	b.answerAs(local, holder)
	b.wait(holder, runtime.Running)
	for _, id := range ids {
		b.answerAs(local, id)
	}
	if _, err := b.Cancel(t.Context(), local, ids[0]); err != nil {
		t.Error(err)
	}
	s := b.request(runtime.StartRequest{Agent: "quiet", ThreadID: "t1", Multitask: runtime.RollbackRuns, Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}}})
	b.wait(s.RunID, runtime.Completed)
	b.wait(ids[1], runtime.Cancelled)
	if err := b.DeleteThread(t.Context(), local, "t2"); err != nil {
		t.Error(err)
	}
	b.down()
	b.up()
	b.wait(holder, runtime.Running)
	close(off)
	b.wait(ids[3], runtime.Completed)
	b.wait(holder, runtime.Completed)
	checkLog(t, b.log("t0"))
	checkLog(t, b.log("t1"))
	checkLog(t, b.log("t3"))
	b.roomGivenBack()
	if n := b.Stats().Asked; n != 0 {
		t.Errorf("%d bytes asked count on", n)
	}
}

// With parallel calls that each return too much, the run ends once, and the next prompt has no call without a result.
func TestParallelResultsThatOverflow(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var prompt []agui.Message
	big := tool{plugins.Info{Name: "big"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: strings.Repeat("x", 300<<10)}, nil
	}}
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Query == "next" {
			mu.Lock()
			prompt = thread(ctx, run)
			mu.Unlock()
			return agui.WorkerOutput{}, nil
		}
		var calls []plugins.ToolCall
		for range 8 {
			calls = append(calls, plugins.ToolCall{Name: "big", Args: json.RawMessage(`{}`)})
		}
		_, err := run.CallTools(ctx, calls...)
		return agui.WorkerOutput{}, errors.Join(err, nil)
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{RunMessages: 1 << 20}}, big, worker)
	for range 5 {
		run := b.wait(b.start("main", "worker", "x").RunID, runtime.Failed)
		if run.Error.Code != "messages_too_large" {
			t.Errorf("%+v", run.Error)
		}
		steps, err := rows(b.Runs.Steps(t.Context(), local, run.ID, 0, 100))
		if err != nil || len(steps) != 1 || !steps[0].Status.Final() {
			t.Errorf("%+v %v", steps, err)
		}
	}
	b.wait(b.start("main", "worker", "next").RunID, runtime.Completed)
	open := map[string]bool{}
	for _, m := range prompt {
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
		if m.Role == agui.RoleTool {
			delete(open, m.ToolCallID)
		}
	}
	if len(open) > 0 {
		t.Errorf("calls without results: %v", open)
	}
	checkLog(t, b.log("main"))
	b.roomGivenBack()
}
