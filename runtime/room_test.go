package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

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
		steps, err := rows(b.Runs.Steps(t.Context(), local, run.ID, "", 0, 100))
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
