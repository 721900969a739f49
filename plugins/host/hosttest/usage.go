package hosttest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime/agui"
)

func testSpent(_ *testing.T, s *suite) {
	count := func(ctx context.Context, run *plugins.Run, n int64) error {
		return run.Usage(ctx, agui.TokenUsage{Provider: "p", Model: "m", InputTokens: n})
	}
	inner := worker{"inner", func(ctx context.Context, run *plugins.Run) (string, error) {
		return "", run.Do(ctx, "think", nil, func(ctx context.Context) error { return count(ctx, run, 10) })
	}}
	helper := worker{"helper", func(ctx context.Context, run *plugins.Run) (string, error) {
		if err := count(ctx, run, 100); err != nil {
			return "", err
		}
		_, err := run.CallAgent(ctx, "inner", "go")
		return "helped", err
	}}
	var lives atomic.Int64
	s.check("110 0", Case{Plugins: append(counters(), helper, inner)}, func(ctx context.Context, run *plugins.Run) (string, error) {
		if err := count(ctx, run, 1000); err != nil {
			return "", err
		}
		asked, err := think(ctx, run, `helper {"query":"please"}`, "count ")
		if err != nil {
			return "", err
		}
		if _, err := run.CallTools(ctx, asked...); err != nil {
			return "", err
		}
		if lives.Add(1) == 1 {
			return "", s.die(ctx)
		}
		sum := func(id string) (n int64) {
			for _, u := range run.Spent(id) {
				n += u.TotalTokens
			}
			return n
		}
		return fmt.Sprint(sum(asked[0].ID), " ", sum(asked[1].ID)), nil
	})
}
