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

// The input of running runs is limited: further runs wait in the queue, for large requests and for large threads, and
// a run that is taken over counts.
func TestRunsAtWorkAreBoundInBytes(t *testing.T) {
	t.Parallel()
	begun, on := make(chan string, 16), make(chan struct{})
	b := open(t, runtime.Config{Limits: runtime.Limits{RunsBytes: 1 << 20}}, agent{"waits", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		begun <- run.Input.ThreadID
		select {
		case <-on:
		case <-ctx.Done():
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{}, nil
	}})
	large := strings.Repeat("x", 400<<10)
	runs := make(map[string]runtime.Started)
	for i := range 3 {
		name := fmt.Sprint("t", i)
		runs[name] = b.start(name, "waits", large)
	}
	at := func(thread string, want runtime.Status) {
		t.Helper()
		b.wait(runs[thread].RunID, want)
	}
	begins := func(want string) {
		t.Helper()
		if got := <-begun; got != want {
			t.Errorf("%s begins, want %s", got, want)
		}
	}
	begins("t0")
	begins("t1")
	at("t2", runtime.Queued)
	runs["light"] = b.start("light", "waits", "short")
	begins("light")

	b.crash() // all but t2 are taken over before any run is claimed
	for range 3 {
		<-begun
	}
	at("t2", runtime.Queued)
	if _, err := b.Cancel(t.Context(), local, runs["t0"].RunID); err != nil {
		t.Error(err)
	}
	begins("t2")
	runs["again"] = b.start("t0", "waits", "short, but behind what is large")
	at("again", runtime.Queued)
	on <- struct{}{} // one of light, t1 and t2
	on <- struct{}{}
	begins("t0")
	close(on)
	for _, name := range []string{"t1", "t2", "light", "again"} {
		at(name, runtime.Completed)
	}
}
