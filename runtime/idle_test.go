package runtime_test

import (
	"context"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A run whose only call of a tool or a model is idle lends its slot, and goes on once a slot is free.
func TestIdle_LendsSlot(t *testing.T) {
	t.Run("tool", func(t *testing.T) { testLendsSlot(t, false) })
	t.Run("model", func(t *testing.T) { testLendsSlot(t, true) })
}

func testLendsSlot(t *testing.T, model bool) {
	t.Helper()
	idle, done, returned := make(chan struct{}, 2), make(chan struct{}), make(chan struct{}, 2)
	rest := func(ctx context.Context, idles func(context.Context, func() error) error) error {
		defer func() { returned <- struct{}{} }()
		return idles(ctx, func() error {
			idle <- struct{}{}
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}
	job := tool{plugins.Info{Name: "job"}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{ResultSummary: "done"}, rest(ctx, call.Idle)
	}}
	clerk := asksFor("clerk", "job", `{}`)
	if model {
		clerk = agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, run.Do(ctx, "model", nil, func(ctx context.Context) error { return rest(ctx, run.Idle) })
		}}
	}
	began, release := make(chan struct{}), make(chan struct{})
	worker := agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		began <- struct{}{}
		<-release
		return agui.WorkerOutput{}, ctx.Err()
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, job, worker, clerk)
	first, second := b.start("a", "clerk", "go"), b.start("b", "clerk", "go")
	<-idle
	<-idle // at once, though there is one slot
	third := b.start("c", "worker", "go")
	<-began
	close(done)
	for _, run := range []string{first.RunID, second.RunID} {
		if r, err := b.Run(t.Context(), local, run); err != nil || r.Status != runtime.Running {
			t.Errorf("a run that waits for a slot is %s, %v", r.Status, err)
		}
	}
	select {
	case <-returned:
		t.Error("a call has gone on without a slot")
	default:
	}
	release <- struct{}{}
	for _, run := range []string{third.RunID, first.RunID, second.RunID} {
		b.wait(run, runtime.Completed)
	}
	worked := b.start("d", "worker", "go") // the slots have all been given back
	<-began
	release <- struct{}{}
	b.wait(worked.RunID, runtime.Completed)
}

// A cancel ends a run at once that is idle, or waits for a slot.
func TestIdle_Cancel(t *testing.T) {
	idle := make(chan struct{}, 1)
	job := tool{plugins.Info{Name: "job"}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{}, call.Idle(ctx, func() error {
			idle <- struct{}{}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, job, asksFor("clerk", "job", `{}`))
	for range 3 {
		run := b.start("a", "clerk", "go").RunID
		<-idle
		if _, err := b.Cancel(t.Context(), local, run); err != nil {
			t.Fatal(err)
		}
		b.wait(run, runtime.Cancelled)
	}
}
