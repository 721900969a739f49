package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
	"github.com/batonrun/baton/runtime/data"
)

// named returns ev with id in the place of every %.
func named(ev agui.Event, id string) agui.Event {
	text := bytes.ReplaceAll(ev.AppendJSON(nil, agui.Stored), []byte("%"), []byte(id))
	named, err := agui.Decode(text)
	if err != nil {
		panic(err)
	}
	return named
}

// Every kind of growth by a worker is refused at a limit, and a cancellation in the middle of it ends the run with a
// complete log.
func TestRun_IsCancelledWhileItsWorkerGrows(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	repeat := func(op string, n int) json.RawMessage {
		return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat(op+",", n), ",") + "]")
	}
	emit := func(evs ...agui.Event) func(*plugins.Run, string) error {
		return func(run *plugins.Run, id string) error {
			for _, ev := range evs {
				if err := run.Emit(named(ev, id)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	type attack struct {
		name   string
		rounds int // after so many it must be refused
		begin  []agui.Event
		round  func(run *plugins.Run, id string) error
	}
	for _, a := range []attack{
		{"steps", agui.MaxOpen + 50, nil, emit(agui.StepStarted{StepName: "%"})},
		{"sub-agents", agui.MaxOpen + 50, nil, emit(agui.SubagentStarted{Base: agui.Base{SubagentRunID: "%"}, Name: "n"})},
		{"reasoning", agui.MaxOpen + 50, nil, emit(agui.ReasoningStart{MessageID: "%"}, agui.ReasoningMessageStart{MessageID: "%"})},
		{"calls", agui.MaxOpen + 50, nil, emit(agui.ToolCallStart{ToolCallID: "%", ToolCallName: "t"})},
		{"unanswered calls", agui.MaxOpen + 50, nil, emit(agui.ToolCallStart{ToolCallID: "%", ToolCallName: "t"}, agui.ToolCallEnd{ToolCallID: "%"})},
		{
			"calls of one message", agui.MaxOpen + 50,
			[]agui.Event{agui.TextMessageStart{MessageID: "m"}, agui.TextMessageContent{MessageID: "m", Delta: large}, agui.TextMessageEnd{MessageID: "m"}},
			emit(agui.ToolCallStart{ToolCallID: "%", ToolCallName: "t", ParentMessageID: "m"}, agui.ToolCallEnd{ToolCallID: "%"},
				agui.ToolCallResult{MessageID: "r%", ToolCallID: "%", Content: "x"}),
		},
		{
			"a long text again", 3,
			[]agui.Event{agui.TextMessageStart{MessageID: "m"}, agui.TextMessageContent{MessageID: "m", Delta: large}, agui.TextMessageEnd{MessageID: "m"}},
			emit(agui.TextMessageStart{MessageID: "m"}, agui.TextMessageEnd{MessageID: "m"}),
		},
		{"a text", 20, []agui.Event{agui.TextMessageStart{MessageID: "m"}}, emit(agui.TextMessageContent{MessageID: "m", Delta: large})},
		{"arguments", 20, []agui.Event{agui.ToolCallStart{ToolCallID: "c", ToolCallName: "t"}}, emit(agui.ToolCallArgs{ToolCallID: "c", Delta: large})},
		{
			"reasoning of many", 20, nil,
			emit(agui.ReasoningStart{MessageID: "%"}, agui.ReasoningMessageStart{MessageID: "%"}, agui.ReasoningMessageContent{MessageID: "%", Delta: large}),
		},
		{"long names", 3, nil, emit(agui.StepStarted{StepName: large + "%"})},
		{"operations of a patch", 3, nil, emit(agui.StateDelta{Delta: repeat(`{"op":"add","path":"/a","value":1}`, 20_000)})},
		{
			"copies that double", 3,
			[]agui.Event{agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":["x"]}`)}},
			emit(agui.StateDelta{Delta: repeat(`{"op":"copy","from":"/a","path":"/a/-"}`, 1000)}),
		},
		{
			"moves of a long array", 3,
			[]agui.Event{agui.StateSnapshot{Snapshot: json.RawMessage(`{"a":[` + strings.Repeat("1,", 200_000) + `1]}`)}},
			emit(agui.StateDelta{Delta: repeat(`{"op":"add","path":"/a/0","value":1}`, 1000)}),
		},
		{
			"a path through many levels", 3,
			[]agui.Event{agui.StateSnapshot{Snapshot: json.RawMessage(strings.Repeat(`{"a":`, 5000) + `"` + large + `"` + strings.Repeat("}", 5000))}},
			emit(agui.StateDelta{Delta: json.RawMessage(`[{"op":"add","path":"` + strings.Repeat("/a", 5000) + `","value":1}]`)}),
		},
		{
			"an activity that doubles", 40,
			[]agui.Event{agui.ActivitySnapshot{MessageID: "a", ActivityType: "t", Content: json.RawMessage(`{"a":["x"]}`)}},
			emit(agui.ActivityDelta{MessageID: "a", ActivityType: "t", Patch: repeat(`{"op":"copy","from":"/a","path":"/a/-"}`, 1)}),
		},
		{
			"merges through many levels", 3,
			[]agui.Event{agui.StateSnapshot{Snapshot: json.RawMessage(strings.Repeat(`{"a":`, 5000) + `"` + large + `"` + strings.Repeat("}", 5000))}},
			func(run *plugins.Run, _ string) error {
				return run.State(json.RawMessage(strings.Repeat(`{"a":`, 4999) + "1" + strings.Repeat("}", 4999)))
			},
		},
		{
			"metadata of fragments", 200,
			[]agui.Event{agui.TextMessageStart{MessageID: "m"}},
			emit(agui.TextMessageContent{Base: agui.Base{Metadata: json.RawMessage(`{"%":"` + large[:1000] + `"}`)}, MessageID: "m", Delta: "x"}),
		},
		{"questions", agui.MaxOpen + 1, nil, func(run *plugins.Run, id string) error {
			if _, err := run.Ask(context.Background(), agui.Interrupt{Message: id}); err != nil && err.Error() != plugins.ErrWaiting.Error() {
				return err
			}
			return nil
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			var refused atomic.Int64
			grown := make(chan struct{})
			worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
				for _, ev := range a.begin {
					if err := run.Emit(ev); err != nil {
						t.Error(err)
					}
				}
				for i := 0; ctx.Err() == nil; i++ {
					if err := a.round(run, fmt.Sprint("x", i)); err != nil && i <= a.rounds {
						refused.Add(1)
					}
					if i == a.rounds {
						close(grown)
					}
				}
				return agui.WorkerOutput{}, context.Cause(ctx)
			}}
			b := open(t, runtime.Config{}, worker)
			s := b.start("main", "worker", "x")
			<-grown
			begun := time.Now()
			b.cancel(s.RunID)
			t.Log("cancelled in", time.Since(begun))
			b.wait(s.RunID, runtime.Cancelled)
			if refused.Load() == 0 {
				t.Error("nothing was refused")
			}
			recs := b.log("main")
			checkLog(t, recs)
			var v agui.Verifier
			for _, rec := range recs {
				must(t, v.Add(rec.Event))
				if n := len(v.Closers()); n > agui.MaxOpen {
					t.Fatalf("%d things are open", n)
				}
			}
		})
	}
}

// A Do with many messages does not repeat all their ids in each record.
func TestDo_ShowsManyMessagesForLittle(t *testing.T) {
	t.Parallel()
	const many = 1000
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "say", nil, func(context.Context) error {
			for range many {
				w := run.Message(agui.RoleAssistant, "")
				_, err := io.WriteString(w, "x")
				if err = errors.Join(err, w.Close()); err != nil {
					return err
				}
			}
			return nil
		})
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, worker)
	counted := &memoBytes{Store: b.store}
	b.injectStore(counted)
	b.wait(b.start("main", "worker", "x").RunID, runtime.Completed)
	if n := counted.n.Load(); n == 0 || n > many*120*40 {
		t.Errorf("the records of a Do of %d messages took %d bytes", many, n)
	}
}

// memoBytes counts the bytes of the records that are stored.
type memoBytes struct {
	runtime.Store
	n atomic.Int64
}

func (m *memoBytes) Commit(ctx context.Context, n int64, batch *data.Batch) error {
	for _, row := range batch.Rows {
		if memo, ok := row.(*data.Memo); ok {
			m.n.Add(int64(len(memo.Output)))
		}
	}
	return m.Store.Commit(ctx, n, batch)
}
