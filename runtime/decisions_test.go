package runtime_test

import (
	"context"
	"testing"

	"github.com/batonrun/baton/runtime"
)

// appended appends a message to a run.
func (b *bench) appended(run, content string) {
	b.t.Helper()
	if _, err := b.Append(context.Background(), local, run, runtime.AppendRequest{Content: content}); err != nil {
		b.t.Fatal(err)
	}
}

func TestQueuedRunsOfAThreadAreCapped(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{QueuePerThread: 3}, gated(gate), hello)
	b.start("main", "gated", "x")
	for range 3 {
		b.start("main", "hello", "x")
	}
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{Agent: "hello", ThreadID: "main", Messages: user("x")})
	if code(err) != "queue_full" {
		t.Errorf("got %v", err)
	}
	b.wait(b.start("other", "hello", "x").RunID, runtime.Completed)
	close(gate)
	b.log("main")
}
