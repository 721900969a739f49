package runtime_test

import (
	"errors"
	"testing"

	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// The target of a queued run's rewind may be hidden when the run's turn comes: the run fails with unknown_message and
// hides no message.
func TestRewindIsJudgedWhenItsRunBegins(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := open(t, runtime.Config{Limits: runtime.Limits{Runs: 1}}, gated(gate), hello)
	b.wait(b.ask("first", runtime.StartRequest{}, said("u1", "one")).RunID, runtime.Completed)
	b.wait(b.ask("second", runtime.StartRequest{}, said("u2", "two")).RunID, runtime.Completed)
	busy := b.start("other", "gated", "go")
	b.wait(busy.RunID, runtime.Running)
	b.ask("to u1", runtime.StartRequest{RewindTo: "u1"}, said("u3", "three"))
	b.ask("to u2", runtime.StartRequest{RewindTo: "u2"}, said("u4", "four"))
	close(gate)
	b.wait("to u1", runtime.Completed)
	run := b.wait("to u2", runtime.Failed)
	if run.Error == nil || run.Error.Code != "unknown_message" {
		t.Errorf("the second rewind has failed with %+v", run.Error)
	}
	b.shows("one", "three", "hello three")
	checkLog(t, b.log("main"))
}

// An answer continues a run and cannot rewind.
func TestAnswerDoesNotRewind(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	b.wait(b.ask("first", runtime.StartRequest{}, said("u1", "one")).RunID, runtime.Completed)
	_, err := b.StartRun(t.Context(), local, runtime.StartRequest{
		ThreadID: "main", RewindTo: "u1", Resume: []agui.ResumeEntry{{InterruptID: "some"}},
	})
	var refusal *runtime.Error
	if !errors.As(err, &refusal) || refusal.Kind != runtime.KindInvalid || refusal.Code != "invalid_request" {
		t.Errorf("got %v", err)
	}
}
