package runtime_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// talker says a megabyte after the other, and does not stop whatever it is told.
func talker(told *sync.Map) agent {
	return agent{"talker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		text := strings.Repeat("x", 1<<20)
		err := run.Emit(agui.TextMessageStart{MessageID: run.Input.RunID, Role: agui.RoleAssistant})
		for said := 0; err == nil; said++ {
			err = run.Emit(agui.TextMessageContent{MessageID: run.Input.RunID, Delta: text})
			told.Store(run.Input.RunID, said)
		}
		return agui.WorkerOutput{}, hang(ctx)
	}}
}

// What a run has said is in memory until it ends: it has an end.
func TestARunThatSaysTooMuchFails(t *testing.T) {
	var told sync.Map
	b := open(t, runtime.Config{RunsSaid: 1 << 30}, talker(&told))
	run := b.wait(b.start("main", "talker", "x").RunID, runtime.Failed)
	if run.Error == nil || run.Error.Code != "messages_too_large" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	if said, _ := told.Load(run.ID); said.(int) < 60 || said.(int) > 66 {
		t.Errorf("it has said %v MiB", said)
	}
	checkLog(t, b.log("main"))
	if said := b.Stats().Said; said != 0 {
		t.Errorf("%d bytes count on", said)
	}
}

// All runs at work have a share of memory together, and those that say little are not to blame.
func TestRunsThatSayTooMuchTogetherFail(t *testing.T) {
	var told sync.Map
	small := agent{"small", func(context.Context, *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Status: agui.StatusSuccess, Answer: "little"}, nil
	}}
	b := open(t, runtime.Config{RunsSaid: 16 << 20}, talker(&told), small)
	var runs []string
	for i := range 4 {
		runs = append(runs, b.start(string(rune('a'+i)), "talker", "x").RunID)
	}
	b.wait(b.start("main", "small", "x").RunID, runtime.Completed)
	all := 0
	for _, id := range runs {
		run := b.wait(id, runtime.Failed)
		if run.Error == nil || run.Error.Code != "overloaded" || !run.Error.Retryable {
			t.Errorf("the run failed with %+v", run.Error)
		}
		said, _ := told.Load(id)
		all += said.(int)
	}
	if all < 16-4 {
		t.Errorf("they have said %d MiB together", all)
	}
}
