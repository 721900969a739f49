package runtime_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

var hello = agent{"hello", func(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	w := run.Text()
	for _, s := range []string{"hello", " ", run.Input.Query} {
		if _, err := io.WriteString(w, s); err != nil {
			return agui.WorkerOutput{}, err
		}
	}
	return agui.WorkerOutput{}, w.Close()
}}

func TestRunStreamsAndCompletes(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	s := b.start("main", "hello", "world")
	recs := b.log("main")
	checkLog(t, recs)
	want := []agui.Type{
		agui.TypeRunStarted, agui.TypeStepStarted, agui.TypeTextMessageStart, agui.TypeTextMessageContent,
		agui.TypeTextMessageEnd, agui.TypeStepFinished, agui.TypeRunFinished,
	}
	if got := types(recs); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	run := b.wait(s.RunID, runtime.Completed)
	if run.OutputSummary == nil || *run.OutputSummary != "hello world" {
		t.Errorf("output %v", run.OutputSummary)
	}
	msgs, err := b.Messages(context.Background(), local, s.RunID, 0, 10)
	if err != nil || msgs.Total != 2 || msgs.Rows[1].Content != "hello world" || msgs.Rows[1].Seq != 2 {
		t.Errorf("messages %+v, %v", msgs, err)
	}
}

func TestCancelEndsAtOnce(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	stubborn := tool{plugins.Info{Name: "stubborn"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		close(entered)
		<-leave
		return agui.ToolOutput{ResultSummary: "late"}, nil
	}}
	caller := agent{"caller", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallTool(ctx, "stubborn", map[string]any{})
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, stubborn, caller)
	s := b.start("main", "caller", "go")
	<-entered
	run, err := b.Cancel(context.Background(), local, s.RunID)
	if err != nil || run.Status != runtime.Cancelled || run.FinishedAt == nil {
		t.Fatalf("%+v, %v", run, err)
	}
	again, err := b.Cancel(context.Background(), local, s.RunID)
	if err != nil || !again.FinishedAt.Equal(*run.FinishedAt) {
		t.Errorf("cancelled twice: %+v, %v", again, err)
	}
	before := b.log("main")
	close(leave)
	b.down()
	b.up()
	after := b.log("main")
	checkLog(t, after)
	if len(before) != len(after) {
		t.Errorf("%d events when the cancel was answered, %d later", len(before), len(after))
	}
}

func TestAskWaitsAndGoesOn(t *testing.T) {
	t.Parallel()
	calls := 0
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "intro", nil, func(context.Context) error {
			calls++
			w := run.Text()
			if _, err := io.WriteString(w, "shall I?"); err != nil {
				return err
			}
			return w.Close()
		})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		a, err := run.Ask(ctx, agui.Interrupt{Message: "Deploy?"})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: "you said " + string(a.Payload)}, nil
	}}
	b := open(t, runtime.Config{}, asker)
	s := b.start("main", "asker", "go")
	b.wait(s.RunID, runtime.Waiting)
	b.down()
	b.up() // nothing of a waiting run stays in memory
	asked, err := b.Interrupts(context.Background(), local, s.RunID)
	if err != nil || len(asked) != 1 {
		t.Fatalf("%v, %v", asked, err)
	}
	_, err = b.Resume(context.Background(), local, s.RunID, []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved", Payload: []byte(`"yes"`)}})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	recs := b.log("main")
	checkLog(t, recs)
	if calls != 1 {
		t.Errorf("Do's function was called %d times", calls)
	}
	run := b.wait(s.RunID, runtime.Completed)
	if *run.OutputSummary != `you said "yes"` {
		t.Errorf("output %q", *run.OutputSummary)
	}
}

func TestAppendRestartsARunThatIsOver(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, hello)
	s := b.start("main", "hello", "one")
	b.wait(s.RunID, runtime.Completed)
	if _, err := b.Append(context.Background(), local, s.RunID, runtime.AppendRequest{Content: "two"}); err != nil {
		t.Fatal(err)
	}
	recs := b.log("main")
	checkLog(t, recs)
	run := b.wait(s.RunID, runtime.Completed)
	if run.Generation != 2 || *run.OutputSummary != "hello two" {
		t.Errorf("generation %d, output %q", run.Generation, *run.OutputSummary)
	}
	steps, err := rows(b.Steps(context.Background(), local, s.RunID, 0, 10))
	if err != nil || len(steps) != 2 || steps[1].Number != 2 {
		t.Errorf("steps %+v, %v", steps, err)
	}
}

func TestReleasedRunGoesOn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	entered := make(chan struct{}, 2)
	slow := agent{"slow", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		w := run.Text()
		if _, err := io.WriteString(w, "partial"); err != nil {
			return agui.WorkerOutput{}, err
		}
		entered <- struct{}{}
		if calls.Add(1) == 2 {
			return agui.WorkerOutput{}, w.Close()
		}
		<-ctx.Done()
		return agui.WorkerOutput{}, context.Cause(ctx)
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{Drain: 1}}, slow)
	s := b.start("main", "slow", "x")
	<-entered
	b.down()
	b.up()
	run := b.wait(s.RunID, runtime.Completed)
	if run.Attempt != 0 {
		t.Errorf("attempt %d after a release", run.Attempt)
	}
	recs := b.log("main")
	checkLog(t, recs)
}

func TestRefusedEventKeepsTheRowsOfThoseBeforeIt(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		err := run.Do(ctx, "one", nil, func(context.Context) error {
			if err := run.Emit(agui.ActivitySnapshot{MessageID: "a1", ActivityType: "PLAN", Content: []byte(`{}`)}); err != nil {
				return err
			}
			_ = run.Emit(agui.RunFinished{})
			return nil
		})
		return agui.WorkerOutput{Answer: "x"}, err
	}}
	b := open(t, runtime.Config{}, worker)
	s := b.start("main", "worker", "x")
	b.wait(s.RunID, runtime.Completed)
	msgs, err := rows(b.Messages(context.Background(), local, s.RunID, 0, 10))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(msgs, func(m runtime.Message) bool { return m.ID == "a1" }) {
		t.Errorf("the log has a message that the rows have not: %+v", msgs)
	}
}

// A long question is stored with its message; the rows of its run and step have its beginning. A worker that is
// called again gets the whole question.
func TestRun_RowsShowTheBeginningOfALongQuestion(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 2)
	b := open(t, runtime.Config{}, agent{"asks", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		asked <- run.Input.Query
		_, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		return agui.WorkerOutput{}, err
	}})
	long := strings.Repeat("ä", 100_000)
	s, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "asks", Messages: user(long)})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Waiting)
	questions, err := b.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(questions) != 1 {
		t.Fatalf("the run asks %v, %v", questions, err)
	}
	if _, err := b.Resume(t.Context(), local, s.RunID, []agui.ResumeEntry{{InterruptID: questions[0].ID, Status: "resolved", Payload: []byte("true")}}); err != nil {
		t.Fatal(err)
	}
	run := b.wait(s.RunID, runtime.Completed)
	for range 2 {
		if got := <-asked; got != long {
			t.Errorf("the worker is asked %d bytes, want %d", len(got), len(long))
		}
	}
	steps, err := b.Steps(t.Context(), local, s.RunID, 0, 10)
	if err != nil || len(steps.Rows) != 1 {
		t.Fatalf("the run has the steps %v, %v", steps.Rows, err)
	}
	for _, shown := range []string{run.InputQuery, steps.Rows[0].Input} {
		if len(shown) != 64<<10 || !strings.HasPrefix(long, shown) {
			t.Errorf("a row shows %d bytes", len(shown))
		}
	}
}
