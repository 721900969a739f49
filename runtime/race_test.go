package runtime_test

import (
	"context"
	"slices"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// gated is a worker that ends when the test opens its gate.
func gated(gate chan struct{}) agent {
	return agent{"gated", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
		return agui.WorkerOutput{Answer: "echo " + run.Input.Query}, nil
	}}
}

// A repeated request returns the ids of its messages.
func TestRepeatKnowsItsMessages(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	ask := func() runtime.Started {
		s := b.request(runtime.StartRequest{
			Agent: "hello", ThreadID: "main", Idempotency: &runtime.Idempotency{Scope: "k", BodyHash: "h"},
			Messages: []agui.Message{said("", "one"), said("named", "two"), said("", "three")},
		})
		b.wait(s.RunID, runtime.Completed)
		return s
	}
	first := ask()
	again := ask()
	if !again.Replayed || !slices.Equal(first.Messages, again.Messages) {
		t.Errorf("the messages are %q, and for who asks again %q", first.Messages, again.Messages)
	}
}
