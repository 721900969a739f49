package runtime_test

import (
	"context"
	"io"
	"slices"
	"strings"
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
	msgs, err := rows(b.Runs.Messages(context.Background(), local, s.RunID, 0, 10))
	must(t, err)
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
	s := b.request(runtime.StartRequest{Agent: "asks", Messages: user(long)})
	b.wait(s.RunID, runtime.Waiting)
	questions, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
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
	steps, err := b.Runs.Steps(t.Context(), local, s.RunID, "", 0, 10)
	if err != nil || len(steps.Rows) != 1 {
		t.Fatalf("the run has the steps %v, %v", steps.Rows, err)
	}
	for _, shown := range []string{run.InputQuery, steps.Rows[0].Input} {
		if len(shown) != 64<<10 || !strings.HasPrefix(long, shown) {
			t.Errorf("a row shows %d bytes", len(shown))
		}
	}
}
