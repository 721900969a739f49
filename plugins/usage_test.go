package plugins_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/plugintest"
	"github.com/batonrun/baton/runtime/agui"
)

func TestUsage_CountsOnce(t *testing.T) {
	spend := func(ctx context.Context, run *plugins.Run, in, out int64) error {
		return run.Usage(ctx, agui.TokenUsage{Model: "m", InputTokens: in, OutputTokens: out})
	}
	a := agent(func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := spend(ctx, run, -1, 0); err == nil {
			t.Error("negative tokens were counted")
		}
		if err := spend(ctx, run, 1, 2); err != nil {
			return agui.WorkerOutput{}, err
		}
		err := run.Do(ctx, "d", nil, func(ctx context.Context) error {
			if err := spend(ctx, run, 10, 20); err != nil {
				return err
			}
			return run.Do(ctx, "inner", nil, func(ctx context.Context) error { return spend(ctx, run, 100, 200) })
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "a"}, spend(ctx, run, 1, 2)
	})
	res := plugintest.Run(t, a, plugintest.Config{})
	want := []agui.TokenUsage{{Model: "m", InputTokens: 112, OutputTokens: 224, TotalTokens: 336}}
	if diff := cmp.Diff(want, res.Usage); diff != "" {
		t.Errorf("result: %s", diff)
	}
	if end := res.Events[len(res.Events)-1].(agui.RunFinished); cmp.Diff(want, end.Usage) != "" {
		t.Errorf("RUN_FINISHED has %+v", end.Usage)
	}
	plugintest.Replay(t, a, plugintest.Config{})
}
