package runtime_test

import (
	"context"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A run of one agent has one goroutine beside its worker's.
func TestRun_OfOneAgentHasOneGoroutine(t *testing.T) {
	stacks := make(chan string, 1)
	b := open(t, runtime.Config{}, agent{"one", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		text := make([]byte, 1<<20)
		stacks <- string(text[:goruntime.Stack(text, true)])
		return agui.WorkerOutput{}, nil
	}})
	run := b.start("t", "one", "hello")
	got := 0
	for stack := range strings.SplitSeq(<-stacks, "\n\n") {
		if strings.Contains(stack, "exec.(*Live).") || strings.Contains(stack, "exec.(*execution).") {
			got++
		}
	}
	if got != 2 {
		t.Errorf("a run and its worker have %d goroutines, want 2", got)
	}
	b.wait(run.RunID, runtime.Completed)
}
