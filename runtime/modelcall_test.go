package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// modelCalls is what a log tells of calls of models, each as its statuses. It fails for a call that is open at the end of its span.
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

// asks calls a model that says a word. What came before the word is committed when it comes.
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
	if _, err := b.Cancel(t.Context(), local, s.RunID); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Cancelled)
	if got := modelCalls(t, b.log("other")); len(got) != 1 || got[0].Status != agui.ModelInterrupted {
		t.Errorf("a call whose run is cancelled: %+v", got)
	}
}

// What a call has said and that it is over is known together: a call whose end is told was not made again.
func TestModelCallsEndWhateverCrashes(t *testing.T) {
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
