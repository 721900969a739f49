package runtime_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// crash starts a second runtime on the database, which fences the first one as if it had died, and waits
// until the first has noticed.
func (b *bench) crash() {
	b.t.Helper()
	old, store := b.Runtime, b.store
	b.up()
	agent := b.cfg.Registry.Agents()[0].Info().Name
	if _, err := old.StartRun(context.Background(), local, runtime.StartRequest{Agent: agent}); err == nil {
		b.t.Fatal("a fenced instance has started a run")
	}
	<-old.Fenced()
	b.t.Cleanup(func() {
		_ = old.Shutdown(context.Background())
		_ = store.Close()
	})
}

func say(run *plugins.Run, words ...string) error {
	w := run.Text(agui.RoleAssistant, "")
	for _, s := range words {
		if _, err := io.WriteString(w, s); err != nil {
			return err
		}
	}
	return w.Close()
}

// hang waits until the run is taken away.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestCrashedRunGoesOnWithoutRepeating(t *testing.T) {
	var did, calls atomic.Int64
	half := make(chan struct{}, 1)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		n := calls.Add(1)
		for _, name := range []string{"one", "two"} {
			err := run.Do(ctx, name, nil, func(context.Context) error {
				did.Add(1)
				return say(run, "did ", name)
			})
			if err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		if n == 1 {
			w := run.Text(agui.RoleAssistant, "")
			_, _ = io.WriteString(w, "cut sho")
			_ = run.Do(ctx, "flush", nil, func(context.Context) error { return nil })
			half <- struct{}{}
			return agui.WorkerOutput{}, hang(ctx)
		}
		return agui.WorkerOutput{}, say(run, "the end")
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	<-half
	b.crash()
	run := b.wait(s.RunID, runtime.Completed)
	if did.Load() != 2 {
		t.Errorf("the functions of Do were called %d times, want 2", did.Load())
	}
	if run.Attempt != 0 || *run.OutputSummary != "the end" {
		t.Errorf("attempt %d, output %q", run.Attempt, *run.OutputSummary)
	}
	recs := b.log("main")
	checkLog(t, recs)
	var said []string
	for _, r := range recs {
		if end, ok := r.Event.(agui.TextMessageEnd); ok {
			said = append(said, end.Output.Status+": "+end.Output.Answer)
		}
	}
	if got := strings.Join(said, ", "); got != "success: did one, success: did two, success: cut sho, success: the end" &&
		got != "success: did one, success: did two, failed: cut sho, success: the end" {
		t.Errorf("said %s", got)
	}
}

func TestInterruptedTextIsHidden(t *testing.T) {
	var calls atomic.Int64
	half := make(chan struct{}, 1)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if calls.Add(1) > 1 {
			return agui.WorkerOutput{}, say(run, "whole")
		}
		w := run.Text(agui.RoleAssistant, "")
		_, _ = io.WriteString(w, "cut sho")
		_, _ = run.CallTool(ctx, "no such tool", nil) // waits for its commit, and ends no text
		_, _ = io.WriteString(w, "rt")
		half <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	<-half
	b.crash()
	b.wait(s.RunID, runtime.Completed)
	checkLog(t, b.log("main"))
	msgs, _, err := b.Messages(context.Background(), local, s.RunID, 0, 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if strings.HasPrefix(m.Content, "cut") && m.State != runtime.MessageHidden && len(m.ToolCalls) == 0 {
			t.Errorf("the interrupted message is still shown: %+v", m)
		}
	}
}

func TestCrashDuringToolCall(t *testing.T) {
	for _, idempotent := range []bool{true, false} {
		var calls atomic.Int64
		ids := make(chan string, 3)
		slow := tool{plugins.Info{Name: "slow", Idempotent: idempotent}, func(ctx context.Context, call *plugins.Call) (agui.ToolOutput, error) {
			ids <- call.ID
			if calls.Add(1) == 1 {
				return agui.ToolOutput{}, hang(ctx)
			}
			return agui.ToolOutput{ResultSummary: "done"}, nil
		}}
		results := make(chan agui.ToolOutput, 2)
		worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
			out, err := run.CallTool(ctx, "slow", map[string]any{})
			if err == nil {
				results <- out
			}
			return agui.WorkerOutput{Answer: out.ResultSummary}, err
		}}
		b := open(t, runtime.Config{}, slow, worker)
		s := b.start("main", "worker", "go")
		first := <-ids
		b.crash()
		b.wait(s.RunID, runtime.Completed)
		checkLog(t, b.log("main"))
		out := <-results
		if idempotent && (<-ids != first || out.ResultSummary != "done") {
			t.Errorf("an idempotent call was not made again: %+v", out)
		}
		if !idempotent && (calls.Load() != 1 || out.Error == nil || out.Error.Code != "interrupted") {
			t.Errorf("a call that may not be repeated: %d calls, %+v", calls.Load(), out)
		}
	}
}

func TestCrashLoopFails(t *testing.T) {
	entered := make(chan struct{}, 1)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		entered <- struct{}{}
		return agui.WorkerOutput{}, hang(ctx)
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "go")
	for range 4 {
		<-entered
		b.crash()
	}
	run := b.wait(s.RunID, runtime.Failed)
	if run.Error == nil || run.Error.Code != "crash_loop" {
		t.Errorf("error %+v", run.Error)
	}
	checkLog(t, b.log("main"))
}
