package runtime_test

import (
	"context"
	"io"
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
		for _, m := range thread(ctx, run) {
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
