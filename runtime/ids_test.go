package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// A worker cannot change messages of an earlier run or generation, even if it reuses their ids.
func TestWorkersMayNotUseIDsOfEarlierRuns(t *testing.T) {
	t.Parallel()
	thief := agent{"thief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Query == "first" {
			return agui.WorkerOutput{}, errors.Join(
				says(run, agui.RoleAssistant, "mine"),
				run.Emit(agui.ToolCallStart{ToolCallID: "call", ToolCallName: "own"}), run.Emit(agui.ToolCallEnd{ToolCallID: "call"}),
				run.Emit(agui.ToolCallResult{MessageID: "result", ToolCallID: "call", Content: "42"}),
			)
		}
		minted := thread(ctx, run)[1].ID // by the server, for another run
		for _, ev := range []agui.Event{
			agui.TextMessageStart{MessageID: "assistant mine"},
			agui.TextMessageStart{MessageID: minted},
			agui.ReasoningMessageStart{MessageID: "result"},
			agui.ToolCallStart{ToolCallID: "call", ToolCallName: "own"},
			agui.ToolCallStart{ToolCallID: "new", ToolCallName: "own", ParentMessageID: "result"},
		} {
			if err := run.Emit(ev); codeOf(err) != "illegal_event" {
				t.Errorf("%s of an earlier run: %v", ev.Type(), err)
			}
		}
		return agui.WorkerOutput{Answer: "done"}, nil
	}}
	b := open(t, runtime.Config{}, thief, hello)
	b.wait(b.start("main", "hello", "before").RunID, runtime.Completed)
	s := b.start("main", "thief", "first")
	b.wait(s.RunID, runtime.Completed)
	b.wait(b.start("main", "thief", "second").RunID, runtime.Completed)
	b.appended(s.RunID, "another generation")
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
	checkRows(t, b)
}

// counting is a store that counts how often messages are looked up.
type counting struct {
	runtime.Store
	lookups atomic.Int64
}

func (c *counting) MessagesByID(ctx context.Context, key int64, ids []string) ([]runtime.Message, error) {
	c.lookups.Add(1)
	return c.Store.MessagesByID(ctx, key, ids)
}

func (c *counting) MessageHeads(ctx context.Context, key int64, ids []string) ([]data.MessageHead, error) {
	c.lookups.Add(1)
	return c.Store.MessageHeads(ctx, key, ids)
}

func TestMintedIDsAreNotLookedUp(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, rich()...)
	store := &counting{Store: b.store}
	b.injectStore(store)
	b.wait(b.start("main", "rich", "one").RunID, runtime.Completed)
	b.wait(b.start("main", "rich", "two").RunID, runtime.Completed)
	if n := store.lookups.Load(); n != 2 { // the activities with ids from the worker
		t.Errorf("%d look-ups, want 2", n)
	}
}

// A worker with ids of its own is called again with the same ids, and its new output is shown.
func TestMessageThatIsBegunAgainIsShown(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	half := make(chan struct{}, 1)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Emit(agui.TextMessageStart{MessageID: "mine", Role: agui.RoleAssistant}); err != nil {
			return agui.WorkerOutput{}, err
		}
		if calls.Add(1) > 1 {
			return agui.WorkerOutput{}, run.Emit(agui.TextMessageContent{MessageID: "mine", Delta: ", again"})
		}
		_ = run.Emit(agui.TextMessageContent{MessageID: "mine", Delta: "cut short"})
		_ = run.Do(ctx, "stored", nil, func(context.Context) error { return nil })
		half <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	<-half
	b.crash()
	b.wait(s.RunID, runtime.Completed)
	checkRows(t, b)
	msgs, err := rows(b.Runs.Messages(t.Context(), local, s.RunID, 0, 10))
	if err != nil || texts(msgs) != "go, cut short, again" {
		t.Errorf("shown: %s, %v", texts(msgs), err)
	}
}
