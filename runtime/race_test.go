package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// gated is a worker that ends when it is told to.
func gated(gate chan struct{}) agent {
	return agent{"gated", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return agui.WorkerOutput{}, context.Cause(ctx)
		}
		return agui.WorkerOutput{Answer: "echo " + run.Input.Query}, nil
	}}
}

func TestCancelAgainstFinishHasOneWinner(t *testing.T) {
	gate := make(chan struct{})
	b := open(t, runtime.Config{}, gated(gate))
	won := map[runtime.Status]int{}
	for i := range 100 {
		thread := fmt.Sprint("t", i)
		s := b.start(thread, "gated", "x")
		var wg sync.WaitGroup
		var err error
		cancelled := make(chan struct{})
		wg.Go(func() {
			select {
			case gate <- struct{}{}: // the worker ends now
			case <-cancelled:
			}
		})
		if i%4 > 0 { // else both start at once
			for range i % 50 * 200 {
				goruntime.Gosched()
			}
		}
		_, err = b.Cancel(context.Background(), local, s.RunID)
		close(cancelled)
		wg.Wait()
		run := b.wait(s.RunID, runtime.Completed, runtime.Cancelled)
		won[run.Status]++
		var refusal *runtime.Error
		if (run.Status == runtime.Cancelled) != (err == nil) || err != nil && !errors.As(err, &refusal) {
			t.Fatalf("the run is %s, the cancel said %v", run.Status, err)
		}
		recs := b.log(thread)
		checkLog(t, recs)
		last := recs[len(recs)-1].Event.(agui.RunFinished)
		if (last.Outcome.Type == agui.OutcomeCancelled) != (run.Status == runtime.Cancelled) {
			t.Fatalf("the run is %s, its log ends with %s", run.Status, last.Outcome.Type)
		}
	}
	t.Logf("winners: %v", won)
}

func TestAppendAgainstFinishLosesNothing(t *testing.T) {
	answer := agent{"answer", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "heard " + run.Input.Query}, nil
	}}
	b := open(t, runtime.Config{}, answer)
	for i := range 100 {
		thread := fmt.Sprint("t", i)
		s := b.start(thread, "answer", "first")
		var wg sync.WaitGroup
		for j := range 3 {
			wg.Go(func() {
				if _, err := b.Append(context.Background(), local, s.RunID, runtime.AppendRequest{Content: fmt.Sprint("more ", j)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		recs := b.log(thread)
		checkLog(t, recs)
		heard := map[string]int{}
		for _, r := range recs {
			switch e := r.Event.(type) {
			case agui.RunStarted:
				for _, m := range e.Input.Messages {
					heard[m.Content]++
				}
			case agui.TextMessageContent:
				heard[e.Delta]++
			}
		}
		for j := range 3 {
			if n := heard[fmt.Sprint("more ", j)]; n != 1 {
				t.Fatalf("message %d was taken %d times: %v", j, n, heard)
			}
		}
		b.wait(s.RunID, runtime.Completed)
	}
}

// Who asks again is told under which ids its messages are there.
func TestRepeatKnowsItsMessages(t *testing.T) {
	b := open(t, runtime.Config{}, hello)
	ask := func() runtime.Started {
		s, err := b.StartRun(t.Context(), local, runtime.StartRequest{
			Agent: "hello", ThreadID: "main", Idempotency: &runtime.Idempotency{Scope: "k", BodyHash: "h"},
			Messages: []agui.Message{said("", "one"), said("named", "two"), said("", "three")},
		})
		if err != nil {
			t.Fatal(err)
		}
		b.wait(s.RunID, runtime.Completed)
		return s
	}
	first := ask()
	again := ask()
	if !again.Replayed || !slices.Equal(first.Messages, again.Messages) {
		t.Errorf("the messages are %q, and for who asks again %q", first.Messages, again.Messages)
	}
}

func TestEqualIdempotencyKeysStartOneRun(t *testing.T) {
	gate := make(chan struct{})
	close(gate)
	b := open(t, runtime.Config{}, gated(gate))
	var wg sync.WaitGroup
	runs := make([]runtime.Started, 50)
	for i := range runs {
		wg.Go(func() {
			var err error
			runs[i], err = b.StartRun(context.Background(), local, runtime.StartRequest{
				Agent: "gated", Messages: []agui.Message{{Role: agui.RoleUser, Content: "x"}},
				Idempotency: &runtime.Idempotency{Scope: "k", BodyHash: "h"},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, r := range runs {
		if r.RunID != runs[0].RunID || r.ThreadID != runs[0].ThreadID {
			t.Fatalf("%+v and %+v", r, runs[0])
		}
	}
	_, err := b.StartRun(context.Background(), local, runtime.StartRequest{
		Agent: "gated", Idempotency: &runtime.Idempotency{Scope: "k", BodyHash: "other"},
	})
	var refusal *runtime.Error
	if !errors.As(err, &refusal) || refusal.Kind != runtime.KindConflict {
		t.Errorf("another body: %v", err)
	}
	b.log(runs[0].ThreadID)
}
