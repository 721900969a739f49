package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Every type of event is counted before it is staged.
func TestEveryLargeEventCounts(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 7<<20)
	object := json.RawMessage(`{"k":"` + large + `"}`)
	for name, evs := range map[string][]agui.Event{
		"a message's start": {agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant, Name: large}},
		"a message's end":   {agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}, agui.TextMessageEnd{Base: agui.Base{Metadata: object}, MessageID: "m"}},
		"a message's text":  {agui.TextMessageStart{MessageID: "m", Role: agui.RoleAssistant}, agui.TextMessageContent{MessageID: "m", Delta: large}},
		"a call's start":    {agui.ToolCallStart{ToolCallID: "c", ToolCallName: "n", Base: agui.Base{Metadata: object}}},
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan error, 5)
			b := open(t, runtime.Config{Limits: runtime.Limits{RunsMessages: 64 << 20, Drain: 1, Grace: 1}}, agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				var err error
				for _, ev := range append(evs, agui.ReasoningStart{MessageID: "r"}) { // stages the buffered events
					err = errors.Join(err, run.Emit(ev))
				}
				if refused <- err; err != nil {
					return agui.WorkerOutput{}, err
				}
				return agui.WorkerOutput{}, hang(ctx)
			}})
			taken := 0
			for i := range 5 {
				b.start(fmt.Sprint(i), "worker", "x")
				if err := <-refused; err == nil {
					taken++
				} else if e, ok := errors.AsType[*plugins.Error](err); !ok || e.Code != "overloaded" || !e.Retryable {
					t.Fatal(err)
				}
			}
			if said := b.Stats().Said; taken > 2 || said < 25<<20 {
				t.Errorf("%d runs have each said 7 MiB, where there is room for two, and %d bytes count", taken, said)
			}
		})
	}
}

// Messages from the client and messages before a rewind do not count as the run's output.
func TestWhatARewindLeavesIsNotSaid(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{Limits: runtime.Limits{RunMessages: 1 << 20}}, agent{"worker", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, say(run, "a word")
	}})
	history := []agui.Message{{ID: "u1", Role: agui.RoleUser, Content: "x"}, {ID: "a1", Role: agui.RoleAssistant, Content: strings.Repeat("x", 2<<20)}, {ID: "u2", Role: agui.RoleUser, Content: "y"}}
	s := b.request(runtime.StartRequest{Agent: "worker", ThreadID: "main", Messages: history})
	if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
		t.Errorf("a run that is asked with a history of 2 MiB and says a word fails: %+v", run.Error)
	}
	s = b.request(runtime.StartRequest{Agent: "worker", ThreadID: "main", RewindTo: "a1", Messages: []agui.Message{{ID: "u3", Role: agui.RoleUser, Content: "z"}}})
	if run := b.wait(s.RunID, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
		t.Errorf("a run that rewinds and says a word fails: %+v", run.Error)
	}
}

// The output of an earlier generation counts neither before nor after an answer.
func TestEarlierGenerationsDoNotFillAnAnsweredRun(t *testing.T) {
	t.Parallel()
	var turn atomic.Int64
	b := open(t, runtime.Config{Limits: runtime.Limits{RunMessages: 2 << 20}}, agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := run.Do(ctx, "say", nil, func(context.Context) error { return say(run, strings.Repeat("x", 300<<10)) }); err != nil {
			return agui.WorkerOutput{}, err
		}
		if turn.Load() < 4 {
			return agui.WorkerOutput{}, nil
		}
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, say(run, "thanks")
	}})
	id := b.start("main", "worker", "x").RunID
	b.wait(id, runtime.Completed)
	for range 4 {
		if turn.Add(1); true {
			b.appended(id, "again")
		}
		b.wait(id, runtime.Completed, runtime.Waiting)
	}
	b.wait(id, runtime.Waiting)
	b.answerAs(local, id)
	if run := b.wait(id, runtime.Completed, runtime.Failed); run.Status != runtime.Completed {
		t.Errorf("its generation has said 0.3 MiB of 2, and it fails with %+v", run.Error)
	}
	checkLog(t, b.log("main"))
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*plugins.Error](err); ok {
		return e.Code
	}
	return ""
}
