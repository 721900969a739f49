package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

func tokensOf(model string, in, out int64) agui.TokenUsage {
	return agui.TokenUsage{Provider: "p", Model: model, InputTokens: in, OutputTokens: out}
}

// spender reports usage at every possible place: outside and inside of Do, in Do inside of Do, and by a sub-agent.
func spender() []plugins.Plugin {
	sub := agent{"sub", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Usage(ctx, tokensOf("small", 1, 2))
		return agui.WorkerOutput{Answer: "sub"}, errors.Join(err, run.Do(ctx, "think", nil, func(ctx context.Context) error {
			return run.Usage(ctx, tokensOf("small", 10, 20))
		}))
	}}
	boss := agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Usage(ctx, tokensOf("large", 100, 200)); err != nil {
			return agui.WorkerOutput{}, err
		}
		for _, name := range []string{"one", "two"} {
			err := run.Do(ctx, name, nil, func(ctx context.Context) error {
				err := run.Usage(ctx, tokensOf("large", 1000, 2000))
				return errors.Join(err, say(run, name), run.Do(ctx, "inner "+name, nil, func(ctx context.Context) error {
					return run.Usage(ctx, tokensOf("small", 100, 200))
				}))
			})
			if err != nil {
				return agui.WorkerOutput{}, err
			}
			if err := run.Usage(ctx, tokensOf("large", 100, 200)); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		if _, err := run.CallAgent(ctx, "sub", "q"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "done"}, run.Usage(ctx, agui.TokenUsage{Provider: "q", Model: "large", InputTokens: 7, CachedInputTokens: 3})
	}}
	return []plugins.Plugin{sub, boss}
}

var spendings = []agui.TokenUsage{
	{Provider: "p", Model: "large", InputTokens: 2300, OutputTokens: 4600, TotalTokens: 6900},
	{Provider: "p", Model: "small", InputTokens: 211, OutputTokens: 422, TotalTokens: 633},
	{Provider: "q", Model: "large", InputTokens: 7, TotalTokens: 7, CachedInputTokens: 3},
}

// sortedUsage returns a run's usage by provider and model, because parallel nodes report in any order.
func sortedUsage(list []agui.TokenUsage) []agui.TokenUsage {
	return slices.SortedFunc(slices.Values(list), func(a, b agui.TokenUsage) int {
		return strings.Compare(a.Provider+a.Model, b.Provider+b.Model)
	})
}

func TestUsageIsSummedInTheRun(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, append(spender(), agent{"fails", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Usage(ctx, agui.TokenUsage{InputTokens: -1}); err == nil {
			t.Error("negative tokens were counted")
		}
		return agui.WorkerOutput{}, errors.Join(errors.New("boom"), run.Do(ctx, "d", nil, func(ctx context.Context) error {
			return errors.Join(errors.New("bang"), run.Usage(ctx, tokensOf("large", 1, 1)))
		}))
	}})...)
	s := b.start("main", "boss", "x")
	run := b.wait(s.RunID, runtime.Completed)
	if diff := cmp.Diff(spendings, sortedUsage(run.Usage)); diff != "" {
		t.Errorf("the run's row: %s", diff)
	}
	recs := b.log("main")
	if end := recs[len(recs)-1].Event.(agui.RunFinished); cmp.Diff(run.Usage, end.Usage) != "" {
		t.Errorf("RUN_FINISHED has %+v", end.Usage)
	}
	failed := b.wait(b.start("main", "fails", "x").RunID, runtime.Failed)
	want := []agui.TokenUsage{{Provider: "p", Model: "large", InputTokens: 1, OutputTokens: 1, TotalTokens: 2}}
	if diff := cmp.Diff(want, failed.Usage); diff != "" {
		t.Errorf("a run that has failed: %s", diff)
	}
	recs = b.log("main")
	if end := recs[len(recs)-1].Event.(agui.RunError); cmp.Diff(want, end.Usage) != "" {
		t.Errorf("RUN_ERROR has %+v", end.Usage)
	}
}

// Usage outside of a Do counts once. A Do that crashes after its report has spent the tokens, and may count again.
func TestUsageIsCountedWhateverCrashes(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, spender()...)
	lives(t, b, runtime.StartRequest{Agent: "boss"}, func(k int, run runtime.Run) {
		if !run.Status.Final() {
			return
		}
		got := sortedUsage(run.Usage)
		if len(got) != len(spendings) || run.Status != runtime.Completed {
			t.Fatalf("after commit %d the run is %s: %+v", k, run.Status, got)
		}
		large, small := got[0].InputTokens-spendings[0].InputTokens, got[1].InputTokens-spendings[1].InputTokens
		if got[2] != spendings[2] || large < 0 || large%1000 != 0 || large > 1000 || small < 0 || small%10 != 0 || small > 100 { // of one Do, and of one inside it
			t.Errorf("after commit %d the run has spent %+v", k, got)
		}
	})
}

func TestUsageMayBeReportedAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, agent{"many", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range 20 {
			run.Go(func() error { return run.Usage(ctx, tokensOf("large", 1, 2)) })
		}
		return agui.WorkerOutput{}, nil
	}})
	run := b.wait(b.start("main", "many", "x").RunID, runtime.Completed, runtime.Failed)
	want := []agui.TokenUsage{{Provider: "p", Model: "large", InputTokens: 20, OutputTokens: 40, TotalTokens: 60}}
	if diff := cmp.Diff(want, run.Usage); diff != "" {
		t.Errorf("%s: %s", run.Status, diff)
	}
}
