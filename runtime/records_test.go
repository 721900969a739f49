package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// restart stops the runtime and starts it again on its database.
func (b *bench) restart() {
	b.t.Helper()
	b.down()
	b.up()
}

// reply answers all open interrupts of a run after a restart.
func (b *bench) reply(run string, payload func(in agui.Interrupt) string) {
	b.t.Helper()
	b.wait(run, runtime.Waiting)
	b.restart()
	asked, err := b.Runs.Interrupts(context.Background(), local, run)
	if err != nil || len(asked) == 0 {
		b.t.Fatalf("run %s asks %v, %v", run, asked, err)
	}
	var answers []agui.ResumeEntry
	for _, in := range asked {
		answers = append(answers, agui.ResumeEntry{InterruptID: in.ID, Status: "resolved", Payload: []byte(payload(in))})
	}
	if _, err := b.Resume(context.Background(), local, run, answers); err != nil {
		b.t.Fatal(err)
	}
}

func always(payload string) func(agui.Interrupt) string {
	return func(agui.Interrupt) string { return payload }
}

// deploy is a tool that requires approval and must not run twice. It sends its arguments to the test.
func deploy(to chan<- string) tool {
	info := plugins.Info{
		Name: "deploy", Approval: true,
		Parameters: []byte(`{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}`),
	}
	return tool{info, func(_ context.Context, call *plugins.Call) (agui.ToolOutput, error) {
		to <- string(call.Args)
		return agui.ToolOutput{ResultSummary: "deployed"}, nil
	}}
}

func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	deployed, told := make(chan string, 9), make(chan string, 9)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		out, err := run.CallTool(ctx, "deploy", map[string]string{"to": "production"})
		if err == nil {
			told <- out.Error.Code
		}
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{Limits: runtime.Limits{ApprovalTimeout: 50 * time.Millisecond}}, worker, deploy(deployed))
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Completed)
	if got := <-told; got != "denied" || len(deployed) > 0 {
		t.Errorf("the call is %s, and was made %d times", got, len(deployed))
	}
	recs := b.log("main")
	checkLog(t, recs)
	for _, r := range recs[1:] {
		if e, ok := r.Event.(agui.RunStarted); ok && (len(e.Input.Resume) != 1 || e.Input.Resume[0].Status != "cancelled" || strings.Contains(string(e.Input.Resume[0].Metadata), "by")) {
			t.Errorf("the span has taken %s", r.JSON(agui.Stored)) // nobody has answered
		}
	}
	asked := questionsIn(recs)[0].ID
	if _, err := b.Resume(context.Background(), local, s.RunID, []agui.ResumeEntry{{InterruptID: asked, Status: "cancelled"}}); code(err) != "interrupt_expired" {
		t.Errorf("an answer after that: %v", err)
	}
}

// questionsIn returns the questions for which the last span of a log ends.
func questionsIn(recs []*runtime.Record) (last []agui.Interrupt) {
	for _, rec := range recs {
		if end, ok := rec.Event.(agui.RunFinished); ok && end.Outcome.Type == agui.OutcomeInterrupt {
			last = end.Outcome.Interrupts
		}
	}
	return last
}

// helper is an agent that requires approval as a tool. It sends its query to the test.
type helper struct{ asked chan string }

func (helper) Info() plugins.Info { return plugins.Info{Name: "helper", Approval: true} }

func (h helper) Run(_ context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
	h.asked <- run.Input.Query
	return agui.WorkerOutput{Answer: "helped"}, nil
}

func TestApprovalOfAnAgentAsTool(t *testing.T) {
	t.Parallel()
	told := make(chan string, 9)
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		query := func(text string) plugins.ToolCall {
			return plugins.ToolCall{Name: "helper", Args: map[string]string{"query": text}}
		}
		outs, err := run.CallTools(ctx, query("one"), query("two"), query("three"))
		for _, out := range outs {
			if err == nil {
				told <- out.ResultSummary
			}
		}
		return agui.WorkerOutput{}, err
	}}
	h := helper{make(chan string, 9)}
	b := open(t, runtime.Config{}, worker, h)
	s := b.start("main", "worker", "go")
	b.reply(s.RunID, func(q agui.Interrupt) string {
		switch {
		case strings.Contains(string(q.Metadata), "one"):
			return `{"approved":true,"editedArgs":{"query":"uno"}}`
		case strings.Contains(string(q.Metadata), "two"):
			return `{"approved":false}`
		}
		return `{"approved":true}`
	})
	b.wait(s.RunID, runtime.Completed)
	if close(h.asked); len(h.asked) != 2 {
		t.Error("the agent was not run twice")
	}
	for q := range h.asked {
		if q != "uno" && q != "three" {
			t.Errorf("the agent was run on %q, not on what the person has made of the query", q)
		}
	}
	want := []string{"helped", "The call was not approved", "helped"}
	for i := range want {
		if got := <-told; got != want[i] {
			t.Errorf("call %d: %s", i+1, got)
		}
	}
	checkLog(t, b.log("main"))
}

// A call that is still being made when its worker begins to wait has no effect afterwards.
func TestCallThatOutlivesItsWorkerIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := tool{plugins.Info{Name: "slow"}, func(context.Context, *plugins.Call) (agui.ToolOutput, error) {
		if calls.Add(1) == 1 {
			close(entered)
			<-leave
		}
		return agui.ToolOutput{ResultSummary: "late"}, nil
	}}
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		result := make(chan string, 1)
		go func() { // ends with the call
			out, err := run.CallTool(ctx, "slow", nil)
			result <- fmt.Sprint(out.Error != nil && out.Error.Code == "interrupted", err)
		}()
		<-entered
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "go on?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: <-result}, nil
	}}
	b := open(t, runtime.Config{}, worker, slow)
	s := b.start("main", "worker", "go")
	b.wait(s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(context.Background(), local, s.RunID)
	must(t, err)
	answer := []agui.ResumeEntry{{InterruptID: asked[0].ID, Status: "resolved"}}
	if _, err := b.Resume(context.Background(), local, s.RunID, answer); err != nil {
		t.Fatal(err)
	}
	if run := b.wait(s.RunID, runtime.Completed); *run.OutputSummary != "true <nil>" || calls.Load() != 1 {
		t.Errorf("%s after %d calls", *run.OutputSummary, calls.Load())
	}
	close(leave)
	checkLog(t, b.log("main"))
}

// CancelTurn does not cancel a run that has been answered since.
func TestAnsweredRunIsNotCancelledForItsOldQuestion(t *testing.T) {
	t.Parallel()
	b := open(t, runtime.Config{}, agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		for range 2 {
			if _, err := run.Ask(ctx, agui.Interrupt{Message: "sure?"}); err != nil {
				return agui.WorkerOutput{}, err
			}
		}
		return agui.WorkerOutput{}, nil
	}})
	s := b.start("main", "asker", "go")
	first := b.wait(s.RunID, runtime.Waiting).ClosedEvent
	b.reply(s.RunID, always(`"yes"`))
	second := first
	for second == first {
		<-tick()
		second = b.wait(s.RunID, runtime.Waiting).ClosedEvent
	}
	err := b.CancelTurn(t.Context(), local, s, true)
	if _, refused := errors.AsType[*runtime.Error](err); !refused {
		t.Errorf("cancelled for its first question: %v, want a refusal", err)
	}
	s.After = first // as for the answering client
	if err := b.CancelTurn(t.Context(), local, s, true); err != nil {
		t.Errorf("cancelled for its second question: %v", err)
	}
	b.wait(s.RunID, runtime.Cancelled)
	checkLog(t, b.log("main"))
}
