package runtime_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// More sub-agents and calls than fit wait for a place, also those of sub-agents: the run has all their results.
func TestPlaces_OthersWait(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	enter := func() {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
	}
	count := tool{plugins.Info{Name: "count"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		enter()
		defer now.Add(-1)
		return agui.ToolOutput{ResultSummary: "1"}, nil
	}}
	all := func(n int, call func(i int) error) error {
		errs := make([]error, n)
		var made sync.WaitGroup
		for i := range n {
			made.Go(func() { errs[i] = call(i) })
		}
		made.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
	leaf := answering("leaf", func(q string) string { return q })
	middle := agent{"middle", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "leaf", run.Input.Query)
		return agui.WorkerOutput{Answer: run.Input.Query}, err
	}}
	for name, work := range map[string]func(ctx context.Context, run *plugins.Run) error{
		"sub-agents": func(ctx context.Context, run *plugins.Run) error {
			return all(70, func(i int) error {
				_, err := run.CallAgent(ctx, "middle", fmt.Sprint(i))
				return err
			})
		},
		"calls of one CallTools": func(ctx context.Context, run *plugins.Run) error {
			outs, err := run.CallTools(ctx, make1000()...)
			for _, out := range outs {
				if out.ResultSummary != "1" {
					return fmt.Errorf("a call has the result %+v", out)
				}
			}
			return err
		},
		"calls one by one": func(ctx context.Context, run *plugins.Run) error {
			return all(600, func(i int) error {
				_, err := run.CallTool(ctx, "count", map[string]int{"n": i})
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			most.Store(0)
			boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				return agui.WorkerOutput{Answer: "all"}, work(ctx, run)
			}}
			b := open(t, runtime.Config{}, boss, middle, leaf, count)
			s := b.start("main", "boss", "go")
			if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
				t.Errorf("it ends with %+v", run.Error)
			}
			if n := most.Load(); n > plugins.MaxCalls {
				t.Errorf("%d calls at once", n)
			}
			checkLog(t, b.log("main"))
		})
	}
}

func make1000() []plugins.ToolCall {
	calls := make([]plugins.ToolCall, 1000)
	for i := range calls {
		calls[i] = plugins.ToolCall{Name: "count", Args: map[string]int{"n": i}}
	}
	return calls
}
