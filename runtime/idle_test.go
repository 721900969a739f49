package runtime_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// A run whose only call of a tool or a model is idle lends its slot, and goes on once a slot is free.
func TestIdle_LendsSlot(t *testing.T) {
	t.Parallel()
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
		r, err := b.Runs.Get(t.Context(), local, run)
		if err != nil || r.Status != runtime.Running {
			t.Errorf("a run that waits for a slot is %s, %v", r.Status, err)
		}
		w := b.Logs.WaitOf(t.Context(), &r)
		for deadline := time.Now().Add(time.Minute); w == nil && time.Now().Before(deadline); <-time.After(time.Millisecond) {
			w = b.Logs.WaitOf(t.Context(), &r)
		}
		if w == nil || w.Reason != "server_limit" || w.Since.IsZero() {
			t.Errorf("a run that wants its slot back waits for %+v", w)
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

// A run that waits for a provider's pace shows since and until when, while none of its nodes works.
func TestWaitForPace_IsShown(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(time.Hour).Round(time.Second)
	paced, done := make(chan struct{}, 2), make(chan struct{})
	clerk := agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.WaitForPace(ctx, until, func() error {
			paced <- struct{}{}
			<-done
			return nil
		})
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, clerk)
	first, second := b.start("a", "clerk", "go"), b.start("b", "clerk", "go")
	<-paced
	<-paced // at once, though there is one slot
	for _, name := range []string{first.RunID, second.RunID} {
		run, err := b.Runs.Get(t.Context(), local, name)
		w := b.Logs.WaitOf(t.Context(), &run)
		if err != nil || run.Status != runtime.Running || w == nil || w.Reason != "provider_pace" || !w.Until.Equal(until) || w.Since.IsZero() {
			t.Errorf("the run %s waits: %+v, %v", run.Status, w, err)
		}
	}
	close(done)
	for _, name := range []string{first.RunID, second.RunID} {
		b.wait(name, runtime.Completed)
		run, err := b.Runs.Get(t.Context(), local, name)
		if w := b.Logs.WaitOf(t.Context(), &run); err != nil || w != nil {
			t.Errorf("a run that is over waits: %+v, %v", w, err)
		}
	}
}

// A wait for a provider's pace that is longer than an execution may take does not end it.
func TestWaitForPace_IsNoPartOfTheTimeout(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	clerk := agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.WaitForPace(ctx, time.Time{}, func() error {
			select {
			case <-time.After(limit + limit/4):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{StepTimeout: limit}}, clerk)
	b.wait(b.start("a", "clerk", "go").RunID, runtime.Completed)
}

// A cancel ends a run at once that is idle, or waits for a slot.
func TestIdle_Cancel(t *testing.T) {
	t.Parallel()
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
		b.cancel(run)
		b.wait(run, runtime.Cancelled)
	}
}

// pair is an agent whose two calls at once are idle until done, and then work until goOn.
func pair() (job tool, clerk agent, idle, back, done, goOn chan struct{}) {
	idle, back, done, goOn = make(chan struct{}, 2), make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
	job = tool{plugins.Info{Name: "job"}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		err := call.Idle(ctx, func() error { idle <- struct{}{}; <-done; return nil })
		back <- struct{}{}
		<-goOn
		return agui.ToolOutput{ResultSummary: "done"}, err
	}}
	clerk = agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallTools(ctx, plugins.ToolCall{Name: "job", Args: map[string]any{}}, plugins.ToolCall{Name: "job", Args: map[string]any{}})
		return agui.WorkerOutput{}, err
	}}
	return job, clerk, idle, back, done, goOn
}

// untilReleased is an agent that works until it is released.
func untilReleased() (worker agent, began, release chan struct{}) {
	began, release = make(chan struct{}, 3), make(chan struct{})
	return agent{"worker", func(ctx context.Context, _ *plugins.Run) (agui.WorkerOutput, error) {
		began <- struct{}{}
		<-release
		return agui.WorkerOutput{}, ctx.Err()
	}}, began, release
}

// soon receives from c, or fails.
func soon(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Minute):
		t.Fatal(what)
	}
}

// The calls of a run that go on at once need one slot together, and what they take besides is offered to others.
func TestIdle_TakesOneSlot(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 2} {
		job, clerk, idle, back, done, goOn := pair()
		worker, began, release := untilReleased()
		b := open(t, runtime.Config{Limits: runtime.Limits{Runs: slots}}, job, worker, clerk)
		for i := range 10 {
			first := b.start(fmt.Sprint("a", i), "clerk", "go")
			soon(t, idle, "no call is idle")
			soon(t, idle, "one call is idle")
			var others []string
			for j := range 2*slots - 1 { // the last one of several waits
				others = append(others, b.start(fmt.Sprint("b", i, j), "worker", "go").RunID)
			}
			for range slots {
				soon(t, began, "the lent slot is not used")
			}
			done <- struct{}{}
			done <- struct{}{}
			for range slots {
				release <- struct{}{}
			}
			if slots > 1 {
				soon(t, began, "a free slot is not used")
				release <- struct{}{}
			}
			soon(t, back, "no call goes on")
			soon(t, back, "a call waits for a second slot")
			goOn <- struct{}{}
			goOn <- struct{}{}
			b.wait(first.RunID, runtime.Completed)
			for _, run := range others {
				b.wait(run, runtime.Completed)
			}
		}
	}
}

// A call that panics while it is idle is idle no more.
func TestIdle_Panics(t *testing.T) {
	t.Parallel()
	job := tool{plugins.Info{Name: "job"}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		return agui.ToolOutput{}, call.Idle(ctx, func() error { panic("oops") })
	}}
	working, goOn := make(chan struct{}), make(chan struct{})
	work := tool{plugins.Info{Name: "work"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		working <- struct{}{}
		<-goOn
		return agui.ToolOutput{}, nil
	}}
	clerk := agent{"clerk", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, _ = run.CallTool(ctx, "job", nil)
		_, err := run.CallTool(ctx, "work", nil)
		return agui.WorkerOutput{}, err
	}}
	worker, began, release := untilReleased()
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, job, work, worker, clerk)
	first := b.start("a", "clerk", "go")
	soon(t, working, "the second call does not begin")
	other := b.start("b", "worker", "go")
	if r, err := b.Runs.Get(t.Context(), local, other.RunID); err != nil || r.Status == runtime.Running {
		t.Errorf("another run in the only slot is %s, %v", r.Status, err)
	}
	close(goOn)
	b.wait(first.RunID, runtime.Completed)
	soon(t, began, "the other run does not begin")
	release <- struct{}{}
	b.wait(other.RunID, runtime.Completed)
}
