package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// modelCalls returns the model calls in a log, each as its statuses. It fails for a call that is open at the end of
// its span.
func modelCalls(t *testing.T, recs []*runtime.Record) (ends []agui.ModelCall) {
	t.Helper()
	open := make(map[string]bool)
	for _, rec := range recs {
		switch e := rec.Event.(type) {
		case agui.Custom:
			c, ok := agui.ModelCallOf(e)
			switch begins := c.Status == agui.ModelStarted; {
			case !ok:
			case begins == open[c.ID]:
				t.Errorf("event %d: the call is open: %v, and now it is %s", rec.ID, open[c.ID], c.Status)
			case begins:
				open[c.ID] = true
			default:
				delete(open, c.ID)
				ends = append(ends, c)
			}
		case agui.RunFinished, agui.RunError:
			if len(open) > 0 {
				t.Errorf("event %d ends the span with calls of models open", rec.ID)
			}
		}
	}
	return ends
}

// asks calls a model that says a word. Everything before the word is committed when the word comes.
func asks(ctx context.Context, run *plugins.Run, word string) error {
	return run.Do(ctx, "model", nil, func(ctx context.Context) error {
		_, end := run.BeginModelCall(ctx)
		err := run.Do(ctx, "before", nil, func(context.Context) error { return say(run, "Well") })
		if err == nil {
			err = say(run, word)
		}
		end(plugins.ModelCall{Usage: tokensOf("large", 3, 4), FinishReason: "stop"}, err)
		return err
	})
}

func TestTheLogTellsCallsOfModels(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	b := open(t, runtime.Config{}, agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, end := run.BeginModelCall(ctx)
		end(plugins.ModelCall{}, &plugins.Error{Code: "rate_limited", Message: "Too many requests", Retryable: true})
		_, end = run.BeginModelCall(ctx)
		end(plugins.ModelCall{}, errors.New("the key is sk-123"))
		return agui.WorkerOutput{}, asks(ctx, run, "yes")
	}}, agent{"hangs", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, end := run.BeginModelCall(ctx)
		started <- struct{}{}
		err := hang(ctx)
		end(plugins.ModelCall{}, err)
		return agui.WorkerOutput{}, err
	}})
	b.wait(b.start("main", "asks", "x").RunID, runtime.Completed)
	got := modelCalls(t, b.log("main"))
	usage := tokensOf("large", 3, 4)
	for i := range got {
		got[i].ID = ""
	}
	want := []agui.ModelCall{
		{Status: agui.ModelFailed, Error: &agui.OutputError{Code: "rate_limited", Message: "Too many requests", Retryable: true}},
		{Status: agui.ModelFailed, Error: &agui.OutputError{Code: "failed", Message: "The model's answer did not come"}},
		{Status: agui.ModelFinished, FinishReason: "stop", Usage: &usage},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	s := b.start("other", "hangs", "x")
	<-started
	b.cancel(s.RunID)
	b.wait(s.RunID, runtime.Cancelled)
	if got := modelCalls(t, b.log("other")); len(got) != 1 || got[0].Status != agui.ModelInterrupted {
		t.Errorf("a call whose run is cancelled: %+v", got)
	}
}

// The output of a call and its end are stored together: a call with a stored end is not made again.
func TestModelCallsEndWhateverCrashes(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if err := asks(ctx, run, "one"); err != nil {
			return agui.WorkerOutput{}, err
		}
		_, err := run.CallAgent(ctx, "sub", "q")
		return agui.WorkerOutput{}, err
	}}, agent{"sub", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, asks(ctx, run, "two")
	}})
	cut := false
	lives(t, b, runtime.StartRequest{Agent: "boss"}, func(k int, run runtime.Run) {
		if !run.Status.Final() {
			return
		}
		finished := 0
		for _, c := range modelCalls(t, b.log(run.ThreadID)) {
			cut = cut || c.Status == agui.ModelInterrupted
			if c.Status == agui.ModelFinished {
				finished++
			}
		}
		if finished != 2 {
			t.Errorf("after commit %d: %d calls have finished", k, finished)
		}
	})
	if !cut {
		t.Error("no crash has cut a call")
	}
}

// The worker does not emit the events of a model call, so the refusal of an earlier event of its own still reaches
// it.
func TestACallOfAModelHidesNoError(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 5<<20) + `"}`)
	b := open(t, runtime.Config{}, agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{Answer: "done"}, run.Do(ctx, "x", nil, func(ctx context.Context) error {
			if err := run.Emit(agui.StateSnapshot{Snapshot: large}); err != nil {
				return err
			}
			_, end := run.BeginModelCall(ctx)
			end(plugins.ModelCall{}, nil)
			return nil
		})
	}})
	run := b.wait(b.start("main", "worker", "x").RunID, runtime.Failed)
	if run.Error.Code != "state_too_large" {
		t.Errorf("the run failed with %+v", run.Error)
	}
	if ends := modelCalls(t, b.log("main")); len(ends) > 0 {
		t.Errorf("the log tells of %+v", ends)
	}
}

// The failure of a call is reported at once, because its worker may pause before the next call, or be cancelled then.
func TestACallThatFailsIsToldAtOnce(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, agent{"rests", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.Do(ctx, "model", nil, func(ctx context.Context) error {
			_, end := run.BeginModelCall(ctx)
			end(plugins.ModelCall{}, &plugins.Error{Code: "rate_limited", Message: "Slow down", Retryable: true})
			if err := run.Retract(ctx); err != nil {
				return err
			}
			return hang(ctx)
		})
	}})
	s := b.start("main", "rests", "x")
	th := b.found("main")
	cur, err := b.Logs.Read(t.Context(), th, 0, false)
	must(t, err)
	defer cur.Close()
	failed := func(rec *runtime.Record) bool {
		e, _ := rec.Event.(agui.Custom)
		c, _ := agui.ModelCallOf(e)
		return c.Status == agui.ModelFailed
	}
	for recs := []*runtime.Record(nil); !slices.ContainsFunc(recs, failed); {
		if recs, err = cur.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b.cancel(s.RunID)
	if got := modelCalls(t, b.log("main")); len(got) != 1 || got[0].Status != agui.ModelFailed || got[0].Error.Code != "rate_limited" {
		t.Errorf("a call that had failed before its run was cancelled: %+v", got)
	}
}

// watched is a tracer that records which model calls have begun and how they ended.
type watched struct {
	runtime.Tracer
	mu    sync.Mutex
	begun int
	ends  []runtime.ModelEnd
}

func (w *watched) Begin(ctx context.Context, op runtime.Op) (context.Context, func(runtime.End)) {
	if op.Kind != runtime.OpModel {
		return ctx, func(runtime.End) {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	return ctx, func(end runtime.End) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ends = append(w.ends, end.Model)
	}
}
func (*watched) Parent(context.Context) string                        { return "" }
func (*watched) Within(ctx context.Context, _ string) context.Context { return ctx }

// The tracer gets the end of a call even if the worker panics inside it: in itself, in a Do or in a sub-agent.
func TestCallsOfModelsEndWhenTheirWorkerPanics(t *testing.T) {
	t.Parallel()
	seen := &watched{}
	dies := func(ctx context.Context, run *plugins.Run) error {
		_, _ = run.BeginModelCall(ctx)
		panic("a client's mistake")
	}
	b := open(t, runtime.Config{Tracer: seen}, agent{"plain", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, dies(ctx, run)
	}}, agent{"do", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return agui.WorkerOutput{}, run.Do(ctx, "model", nil, func(ctx context.Context) error { return dies(ctx, run) })
	}}, agent{"boss", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		return run.CallAgent(ctx, "plain", "q")
	}}, agent{"late", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, end := run.BeginModelCall(ctx)
		end(plugins.ModelCall{}, nil)
		end(plugins.ModelCall{}, errors.New("told twice"))
		return agui.WorkerOutput{}, nil
	}})
	for _, name := range []string{"plain", "do", "boss"} {
		b.wait(b.start(name, name, "x").RunID, runtime.Failed)
		if got := modelCalls(t, b.log(name)); len(got) != 1 || got[0].Status != agui.ModelFailed {
			t.Errorf("%s: the log tells of %+v", name, got)
		}
	}
	b.wait(b.start("late", "late", "x").RunID, runtime.Completed)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.begun != 4 || len(seen.ends) != 4 || seen.ends[0].Err == nil || seen.ends[1].Err == nil || seen.ends[2].Err == nil || seen.ends[3].Err != nil {
		t.Errorf("of %d calls the tracer knows the ends %+v", seen.begun, seen.ends)
	}
}
