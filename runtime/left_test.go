package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/runtime/agui"
)

// leaves shows a call in a Do and leaves it open.
func leaves(ctx context.Context, run *plugins.Run, tool string) (id string, err error) {
	err = run.Do(ctx, "call", &id, func(ctx context.Context) error {
		id = fmt.Sprintf("%s-%s-%s", run.Input.RunID, run.Input.Node, tool)
		for _, ev := range []agui.Event{agui.ToolCallStart{ToolCallID: id, ToolCallName: tool}, agui.ToolCallEnd{ToolCallID: id}} {
			if err := run.Emit(ev); err != nil {
				return err
			}
		}
		return run.Leave(ctx, id, tool)
	})
	return id, err
}

func resultOf(id, text string) agui.ToolCallResult {
	return agui.ToolCallResult{
		MessageID: id + "-" + text, ToolCallID: id, Content: text, Output: &agui.ToolOutput{Status: agui.StatusSuccess, ResultSummary: text},
	}
}

// results are the results in a log.
func (b *bench) results(thread string) string {
	b.t.Helper()
	recs := b.log(thread)
	checkLog(b.t, recs)
	var list []string
	for _, r := range recs {
		if e, ok := r.Event.(agui.ToolCallResult); ok {
			list = append(list, e.Output.ToolName+" "+e.Output.Status+" "+e.Content)
		}
	}
	return strings.Join(list, ", ")
}

// A call that a worker leaves open has no result while its run waits, and then the one that the worker emits.
func TestLeave_KeepsCallOpen(t *testing.T) {
	t.Parallel()
	asks := func(ctx context.Context, run *plugins.Run) (string, error) {
		id, err := leaves(ctx, run, "send")
		if err != nil {
			return "", err
		}
		_, err = run.Ask(ctx, agui.Interrupt{Message: "to whom?", ToolCallID: id})
		return id, err
	}
	var hung sync.Map // runs
	blocked := map[string]chan struct{}{"worker": make(chan struct{}), "chief": make(chan struct{})}
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		id, err := asks(ctx, run)
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{}, run.Do(ctx, "goes on", nil, func(context.Context) error {
			if _, again := hung.LoadOrStore(run.Input.RunID, true); run.Input.Query == "crash" && !again {
				close(blocked[run.Input.Node])
				return hang(ctx)
			}
			if run.Input.Query == "forget" {
				return nil
			}
			if err := run.Emit(resultOf(id, "sent")); err != nil {
				return err
			}
			return say(run, "done")
		})
	}}
	again := agent{"again", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		id, err := asks(ctx, run)
		if err == nil {
			err = run.Do(ctx, "answer", nil, func(context.Context) error { return run.Emit(resultOf(id, "sent")) })
		}
		if err == nil {
			_, err = run.Ask(ctx, agui.Interrupt{Message: "and now?"})
		}
		if err == nil && run.Emit(resultOf(id, "twice")) == nil {
			err = errors.New("a second result is legal")
		}
		return agui.WorkerOutput{}, err
	}}
	chief := agent{"chief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		_, err := run.CallAgent(ctx, "worker", run.Input.Query)
		return agui.WorkerOutput{}, err
	}}
	for name, tt := range map[string]struct {
		agent, query string
		meanwhile    func(b *bench, run string)
		answers      int
		want         string
	}{
		"answered":           {"worker", "go", nil, 1, "send success sent"},
		"as a sub-agent":     {"chief", "go", nil, 1, "send success sent"},
		"restarted":          {"worker", "go", func(b *bench, _ string) { b.down(); b.up() }, 1, "send success sent"},
		"no result":          {"worker", "forget", nil, 1, "send failure The call was interrupted before it returned"},
		"asked again":        {"again", "go", nil, 2, "send success sent"},
		"cancelled":          {"worker", "go", func(b *bench, run string) { _, _ = b.Cancel(t.Context(), local, run) }, 0, "send failure The call was cancelled before it returned"},
		"crash":              {"worker", "crash", nil, 1, "send success sent"},
		"crash as sub-agent": {"chief", "crash", nil, 1, "send success sent"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, runtime.Config{}, worker, again, chief)
			s := b.start("main", tt.agent, tt.query)
			b.wait(s.RunID, runtime.Waiting)
			if tt.meanwhile == nil || tt.answers > 0 {
				if recs := b.log("main"); strings.Contains(fmt.Sprint(types(recs)), "RESULT") {
					t.Errorf("the call has a result while the run waits: %v", types(recs))
				}
			}
			if tt.meanwhile != nil {
				tt.meanwhile(b, s.RunID)
			}
			for range tt.answers {
				b.wait(s.RunID, runtime.Waiting)
				b.resume(s.RunID, `"ann"`)
				if tt.query == "crash" {
					<-blocked[tt.agent]
					b.crash()
				}
				b.wait(s.RunID, runtime.Waiting, runtime.Completed)
			}
			b.wait(s.RunID, runtime.Completed, runtime.Cancelled)
			if got := b.results("main"); got != tt.want {
				t.Errorf("the results are %q, want %q", got, tt.want)
			}
		})
	}
}

// A client's tool message answers the question about its call, if it fits: a text, or the JSON that it is.
func TestLeave_ToolMessageAnswersQuestion(t *testing.T) {
	t.Parallel()
	asker := agent{"asker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		id, err := leaves(ctx, run, "pick")
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		schema := json.RawMessage(`{"type":["object","string"],"maxLength":9}`)
		answer, err := run.Ask(ctx, agui.Interrupt{Message: "which?", ToolCallID: id, ResponseSchema: schema})
		if err != nil {
			return agui.WorkerOutput{}, err
		}
		return agui.WorkerOutput{Answer: string(answer.Payload)}, run.Emit(resultOf(id, "picked"))
	}}
	b := open(t, runtime.Config{}, asker)
	for content, want := range map[string]string{"red": `"red"`, `{"of":2}`: `{"of":2}`} {
		s := b.start(content, "asker", "go")
		b.wait(s.RunID, runtime.Waiting)
		asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
		if err != nil || len(asked) != 1 {
			t.Fatal(asked, err)
		}
		says := func(content string) error {
			_, err := b.StartRun(t.Context(), local, runtime.StartRequest{Agent: "asker", ThreadID: s.ThreadID, Messages: []agui.Message{
				{ID: s.ThreadID + content, Role: agui.RoleTool, ToolCallID: asked[0].ToolCallID, Content: content},
			}})
			return err
		}
		refused, ok := errors.AsType[*runtime.Error](says("much too long"))
		if !ok || refused.Code != "invalid_answer" || refused.Place != "/messages/0/content" {
			t.Errorf("an answer that does not fit: %+v", refused)
		}
		if err := says(content); err != nil {
			t.Fatal(err)
		}
		if got := b.answer(s.RunID); got != want || b.results(s.ThreadID) != "pick success picked" {
			t.Errorf("%s was answered with %s, results %s", content, got, b.results(s.ThreadID))
		}
	}
}

// Only the step that has left a call open may emit its result.
func TestLeave_BelongsToStep(t *testing.T) {
	t.Parallel()
	owner := agent{"owner", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		id, err := leaves(ctx, run, "send")
		if err == nil {
			_, err = run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		}
		if err == nil {
			err = run.Emit(resultOf(id, "own"))
		}
		return agui.WorkerOutput{}, err
	}}
	thief := agent{"thief", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if _, err := run.Ask(ctx, agui.Interrupt{Message: "now?"}); err != nil {
			return agui.WorkerOutput{}, err
		}
		err := run.Emit(resultOf(run.Input.RunID+"-owner-send", "stolen"))
		if refused, ok := errors.AsType[*plugins.Error](err); !ok || refused.Code != "illegal_event" {
			return agui.WorkerOutput{}, fmt.Errorf("the result of another's call: %w", err)
		}
		return agui.WorkerOutput{}, nil
	}}
	b := open(t, runtime.Config{}, owner, thief, plugins.Workflow{Name: "both", Nodes: []plugins.Node{{ID: "owner", Agent: "owner"}, {ID: "thief", Agent: "thief"}}})
	s := b.startWorkflow("main", "both", "go")
	b.wait(s.RunID, runtime.Waiting)
	asked, err := b.Runs.Interrupts(t.Context(), local, s.RunID)
	if err != nil || len(asked) != 2 {
		t.Fatal(asked, err)
	}
	var answers []agui.ResumeEntry
	for _, in := range asked {
		answers = append(answers, agui.ResumeEntry{InterruptID: in.ID, Status: "resolved", Payload: json.RawMessage("true")})
	}
	if _, err := b.Resume(t.Context(), local, s.RunID, answers); err != nil {
		t.Fatal(err)
	}
	b.wait(s.RunID, runtime.Completed)
	if got := b.results("main"); got != "send success own" {
		t.Errorf("the results are %q", got)
	}
}

// A step that ends without the result of a call that it has left open gives it a failed one, and the next execution begins
// without it.
func TestLeave_EndsWithStep(t *testing.T) {
	t.Parallel()
	worker := agent{"worker", func(ctx context.Context, run *plugins.Run) (agui.WorkerOutput, error) {
		if run.Input.Execution > 1 {
			return agui.WorkerOutput{}, nil
		}
		_, err := leaves(ctx, run, "send")
		if err == nil {
			_, err = run.Ask(ctx, agui.Interrupt{Message: "sure?"})
		}
		if err == nil {
			err = &plugins.Error{Code: "busy", Message: "busy", Retryable: true}
		}
		return agui.WorkerOutput{}, err
	}}
	b := open(t, runtime.Config{}, worker, plugins.Workflow{Name: "flow", Nodes: []plugins.Node{{ID: "worker", Agent: "worker", Retry: plugins.Retry{Retries: 1, Initial: time.Millisecond}}}})
	s := b.startWorkflow("main", "flow", "go")
	b.wait(s.RunID, runtime.Waiting)
	b.resume(s.RunID, `true`)
	b.wait(s.RunID, runtime.Completed)
	if got := b.results("main"); got != "send failure The call was interrupted before it returned" {
		t.Errorf("the results are %q", got)
	}
	ts := types(b.log("main"))
	result, last := slices.Index(ts, agui.TypeToolCallResult), len(ts)-1
	for ts[last] != agui.TypeStepStarted {
		last--
	}
	if result > last {
		t.Errorf("the result is behind the second execution: %v", ts)
	}
}
