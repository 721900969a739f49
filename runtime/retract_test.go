package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// Messages that a Do retracts stay in the log, and are neither shown nor prompted.
func TestRetractedTextIsHidden(t *testing.T) {
	prompts := make(chan string, 2)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		var prompt []runtime.Message
		for _, m := range run.Input.Messages {
			prompt = append(prompt, runtime.Message{Message: m})
		}
		prompts <- texts(prompt)
		return agui.WorkerOutput{}, run.Do(ctx, "answer", nil, func(ctx context.Context) error {
			if _, err := io.WriteString(run.Text(), "half"); err != nil {
				return err
			}
			if err := run.Retract(ctx); err != nil {
				return err
			}
			_, err := io.WriteString(run.Text(), "whole")
			return err
		})
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Completed)
	msgs, err := rows(b.Messages(context.Background(), local, s.RunID, 0, 50))
	if err != nil || texts(msgs) != "go, whole" {
		t.Errorf("shown: %s, %v", texts(msgs), err)
	}
	next := b.start("main", "worker", "on")
	b.wait(next.RunID, runtime.Completed)
	<-prompts
	if got := <-prompts; got != "go, whole, on" {
		t.Errorf("the next prompt is %s", got)
	}
	checkLog(t, b.log("main"))
}

// A Do does not retract messages from before it.
func TestRetractLeavesWhatWasSaidBefore(t *testing.T) {
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := io.WriteString(run.Text(), "before"); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, run.Do(ctx, "answer", nil, func(ctx context.Context) error {
			if err := run.Retract(ctx); err != nil {
				return err
			}
			_, err := io.WriteString(run.Text(), "whole")
			return err
		})
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Completed)
	msgs, err := rows(b.Messages(context.Background(), local, s.RunID, 0, 50))
	if err != nil || texts(msgs) != "go, before, whole" {
		t.Errorf("shown: %s, %v", texts(msgs), err)
	}
	checkLog(t, b.log("main"))
}

// A retracted text no longer holds the turn to speak, also while its worker pauses.
func TestATextThatIsTakenBackHoldsUpNobody(t *testing.T) {
	begun, spoken := make(chan struct{}), make(chan struct{})
	b := open(t, runtime.Config{},
		agent{"tries", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, run.Do(ctx, "model", nil, func(ctx context.Context) error {
				if _, err := io.WriteString(run.Text(), "half"); err != nil {
					return err
				}
				if err := run.Retract(ctx); err != nil {
					return err
				}
				close(begun)
				select {
				case <-spoken:
				case <-ctx.Done():
					return ctx.Err()
				}
				return say(run, "whole")
			})
		}},
		agent{"speaks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			<-begun
			err := say(run, "hello")
			close(spoken)
			return agui.WorkerOutput{}, err
		}},
		plugins.Workflow{Name: "both", Nodes: []plugins.Node{{ID: "a", Agent: "tries"}, {ID: "b", Agent: "speaks"}}},
	)
	s, err := b.StartRun(t.Context(), local, runtime.StartRequest{WorkflowID: "both", ThreadID: "main", Messages: user("x")})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
}

// The log retracts a text that a crash has cut short, so that a follower shows the same as the thread.
func TestLogTakesBackWhatACrashCut(t *testing.T) {
	half := make(chan struct{}, 1)
	var calls atomic.Int64
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if calls.Add(1) > 1 {
			return agui.WorkerOutput{}, say(run, "the whole")
		}
		_, _ = io.WriteString(run.Text(), "the wh")
		_ = run.Do(ctx, "flush", nil, func(context.Context) error { return nil })
		half <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	run := b.start("main", "worker", "x")
	<-half
	b.crash()
	b.wait(run.RunID, runtime.Completed)
	said, back := map[string]string{}, map[string]bool{}
	for _, rec := range b.log("main") {
		switch e := rec.Event.(type) {
		case agui.TextMessageContent:
			said[e.MessageID] += e.Delta
		case agui.Custom:
			for _, id := range agui.RetractedBy(e) {
				back[id] = true
			}
		}
	}
	for id, text := range said {
		if back[id] != (text == "the wh") {
			t.Errorf("%q is taken back: %v", text, back[id])
		}
	}
	if len(said) != 2 {
		t.Errorf("said %v", said)
	}
}

// The log also retracts a text that its own worker retracts, even if the process dies before the worker gets the
// result.
func TestLogTakesBackWhatAWorkerTakesBack(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		cut := make(chan struct{}, 1)
		var calls atomic.Int64
		b := open(t, runtime.Config{}, agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			return agui.WorkerOutput{}, run.Do(ctx, "answer", nil, func(ctx context.Context) error {
				switch {
				case calls.Add(1) > 1:
				case crashes:
					err := errors.Join(
						run.Emit(agui.TextMessageStart{MessageID: "half", Role: agui.RoleAssistant}),
						run.Emit(agui.TextMessageContent{MessageID: "half", Delta: "half"}),
						run.Emit(agui.TextMessageEnd{MessageID: "half", Output: &agui.WorkerOutput{
							Status: agui.StatusFailed, Answer: "half", Error: &agui.OutputError{Code: "interrupted"},
						}}),
						run.Emit(agui.Custom{Name: "stored", Value: json.RawMessage("1")}),
					)
					if cut <- struct{}{}; err != nil {
						return err
					}
					return hang(ctx)
				default:
					if _, err := io.WriteString(run.Text(), "half"); err != nil {
						return err
					}
					if err := run.Retract(ctx); err != nil {
						return err
					}
				}
				return say(run, "whole")
			})
		}})
		run := b.start("main", "worker", "x")
		if crashes {
			<-cut
			th, err := b.Thread(t.Context(), local, "main")
			if err == nil {
				_, err = b.Snapshot(t.Context(), th) // it waits until all events are stored
			}
			if err != nil {
				t.Fatal(err)
			}
			b.crash()
		}
		if r := b.wait(run.RunID, runtime.Completed, runtime.Failed); r.Status != runtime.Completed {
			t.Fatalf("crashes: %v: %+v", crashes, r.Error)
		}
		said, back := map[string]string{}, map[string]int{}
		for _, rec := range b.log("main") {
			switch e := rec.Event.(type) {
			case agui.TextMessageContent:
				said[e.MessageID] += e.Delta
			case agui.Custom:
				for _, id := range agui.RetractedBy(e) {
					back[id]++
				}
			}
		}
		for id, text := range said {
			if back[id] == 1 != (text == "half") {
				t.Errorf("crashes: %v: %q is taken back %d times", crashes, text, back[id])
			}
		}
		if len(said) != 2 {
			t.Errorf("said %v", said)
		}
	}
}
