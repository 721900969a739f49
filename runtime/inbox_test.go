package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Each message that was accepted reaches the worker once, in order, however many wait: with its input, at its next
// Next, or when the run goes once more for it.
func TestEveryAppendedMessageReachesTheWorker(t *testing.T) {
	const many, size = 8, 1 << 20 // more than an event holds
	big := strings.Repeat("x", size-10)
	for _, nexts := range []bool{true, false} {
		gate := make(chan struct{})
		var met []string
		meet := func(msgs []agui.Message) {
			for _, m := range msgs {
				if name, _, ok := strings.Cut(m.Content, "x"); ok && m.Role == agui.RoleUser {
					met = append(met, name)
				}
			}
		}
		worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			met = nil
			meet(run.Input.Messages)
			for nexts {
				msgs, err := run.Next(ctx)
				if err != nil || msgs == nil {
					return agui.WorkerOutput{}, err
				}
				meet(msgs)
			}
			return agui.WorkerOutput{}, nil
		}}
		b := open(t, runtime.Config{MessageBytes: 64 << 20}, gated(gate), worker)
		b.start("main", "gated", "1")
		s := b.start("main", "worker", "2")
		var want []string
		for i := range many {
			want = append(want, fmt.Sprint(i, "."))
			if _, err := b.Append(t.Context(), local, s.RunID, runtime.AppendRequest{Content: want[i] + big}); err != nil {
				t.Fatal(err)
			}
		}
		close(gate)
		b.log("main")
		run := b.wait(s.RunID, runtime.Completed, runtime.Failed)
		if got := fmt.Sprint(met); got != fmt.Sprint(want) {
			t.Errorf("the worker met %v in generation %d", got, run.Generation)
		}
		checkLog(t, b.log("main"))
	}
}
