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

// A worker cannot change messages of an earlier run, even if it reuses their ids.
func TestWorkersMayNotUseIDsOfEarlierRuns(t *testing.T) {
	t.Parallel()
	var refused []error
	thief := agent{"thief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Query == "first" {
			return agui.WorkerOutput{}, errors.Join(
				run.Emit(agui.TextMessageStart{MessageID: "text", Role: agui.RoleAssistant}),
				run.Emit(agui.TextMessageContent{MessageID: "text", Delta: "mine"}),
				run.Emit(agui.TextMessageEnd{MessageID: "text"}),
				run.Emit(agui.ToolCallStart{ToolCallID: "call", ToolCallName: "own", ParentMessageID: "text"}),
				run.Emit(agui.ToolCallEnd{ToolCallID: "call"}),
				run.Emit(agui.ToolCallResult{MessageID: "result", ToolCallID: "call", Content: "42"}),
				run.Emit(agui.ToolCallStart{ToolCallID: "alone", ToolCallName: "own"}),
				run.Emit(agui.ToolCallEnd{ToolCallID: "alone"}),
				run.Emit(agui.ToolCallResult{MessageID: "result of alone", ToolCallID: "alone", Content: "43"}),
				run.Emit(agui.ActivitySnapshot{MessageID: "plan", ActivityType: "plan", Content: []byte(`{}`)}),
				run.Emit(agui.TextMessageStart{MessageID: "text", Role: agui.RoleAssistant}), // the run's own message may continue
				run.Emit(agui.TextMessageContent{MessageID: "text", Delta: " too"}),
			)
		}
		minted := thread(ctx, run)[1].ID // by the server, for another run
		refused = nil
		for _, id := range []string{"text", "result", "alone", "plan", minted} {
			refused = append(refused,
				run.Emit(agui.TextMessageStart{MessageID: id, Role: agui.RoleAssistant}),
				run.Emit(agui.ReasoningMessageStart{MessageID: id}),
				run.Emit(agui.ActivitySnapshot{MessageID: id, ActivityType: "plan", Content: []byte(`{"n":2}`)}),
				run.Emit(agui.ToolCallStart{ToolCallID: "new", ToolCallName: "own", ParentMessageID: id}),
			)
		}
		refused = append(refused,
			run.Emit(agui.ToolCallStart{ToolCallID: "call", ToolCallName: "own"}),
			run.Emit(agui.ToolCallStart{ToolCallID: "alone", ToolCallName: "own"}))
		free := "free of " + run.Input.Query
		err := run.Emit(agui.ToolCallStart{ToolCallID: free, ToolCallName: "own"})
		refused = append(refused, run.Emit(agui.ToolCallResult{MessageID: "text", ToolCallID: free, Content: "x"}))
		err = errors.Join(err, run.Emit(agui.ToolCallEnd{ToolCallID: free}),
			run.Emit(agui.ToolCallResult{MessageID: "result of " + free, ToolCallID: free, Content: "x"}))
		return agui.WorkerOutput{Answer: "done"}, err
	}}
	b := open(t, runtime.Config{}, thief, hello)
	b.wait(b.start("main", "hello", "before").RunID, runtime.Completed)
	s := b.start("main", "thief", "first")
	b.wait(s.RunID, runtime.Completed)
	check := func() {
		t.Helper()
		checkLog(t, b.log("main"))
		checkRows(t, b)
		for i, err := range refused {
			if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "illegal_event" {
				t.Errorf("theft %d: %v", i, err)
			}
		}
	}
	b.wait(b.start("main", "thief", "second").RunID, runtime.Completed)
	check()
	b.appended(s.RunID, "another generation")
	b.log("main")
	b.wait(s.RunID, runtime.Completed)
	refused = refused[:0:0]
	b.wait(b.start("main", "thief", "third").RunID, runtime.Completed)
	check()
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
